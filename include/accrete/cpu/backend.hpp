#pragma once
#include "accrete/backend/backend.hpp"
#include "accrete/cpu/context.hpp"
#if defined(ACCRETE_COMPILED)
#include "accrete/cpu/declared.hpp"
#else
#include "accrete/cpu/operations.hpp"
#endif

/// The backend of a CPU's threads: matrix products from a provider (oneDNN where it was found, or Eigen, unless one is named), the rest
/// from Eigen's arrays and vectorized loops.
namespace accrete::inline v0 {

static_assert(backend<cpu::backend<float>>);
static_assert(backend<cpu::backend<double>>);
static_assert(backend<cpu::backend<bfloat16>>);

}  // namespace accrete::inline v0
