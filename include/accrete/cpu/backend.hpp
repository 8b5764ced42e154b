#pragma once
#include "accrete/backend/backend.hpp"
#include "accrete/cpu/context.hpp"
// The operations.
#include "accrete/cpu/arithmetic.hpp"
#include "accrete/cpu/attention.hpp"
#include "accrete/cpu/attention_backward.hpp"
#include "accrete/cpu/gemm_eigen.hpp"
#include "accrete/cpu/gemm_onednn.hpp"
#include "accrete/cpu/linear.hpp"
#include "accrete/cpu/logits.hpp"
#include "accrete/cpu/losses.hpp"
#include "accrete/cpu/norms.hpp"
#include "accrete/cpu/optimizer.hpp"
#include "accrete/cpu/positions.hpp"
#include "accrete/cpu/swiglu.hpp"

/// The backend of a CPU's threads: matrix products from a provider (oneDNN where it was found, or Eigen, unless one is named), the rest
/// from Eigen's arrays and vectorized loops.
namespace accrete::inline v0 {

static_assert(backend<cpu::backend<float>>);
static_assert(backend<cpu::backend<double>>);
static_assert(backend<cpu::backend<bfloat16>>);

}  // namespace accrete::inline v0
