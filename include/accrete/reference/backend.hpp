#pragma once
#include "accrete/backend/backend.hpp"
#include "accrete/reference/context.hpp"
// The operations.
#include "accrete/reference/arithmetic.hpp"
#include "accrete/reference/attention.hpp"
#include "accrete/reference/linear.hpp"
#include "accrete/reference/losses.hpp"
#include "accrete/reference/memory.hpp"
#include "accrete/reference/norms.hpp"
#include "accrete/reference/optimizer.hpp"
#include "accrete/reference/positions.hpp"
#include "accrete/reference/swiglu.hpp"

/// The backend of plain loops: the equations as they stand, for checking the others against.
namespace accrete::inline v0 {

static_assert(backend<reference::backend<double>>);
static_assert(backend<reference::backend<float>>);

}  // namespace accrete::inline v0
