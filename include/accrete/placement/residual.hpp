#pragma once
#include <array>

#include "accrete/placement/norm_placement.hpp"

namespace accrete::inline v0::placement {

/// ResiDual (arXiv 2304.14802): a post-norm stream x and a second one, y, that sums the same branch outputs
/// without ever being normalized; the head reads x + norm(y).
struct residual {
  static constexpr char const* name = "residual";
  static constexpr auto o = wiring::f(wiring::x);
  static constexpr auto wiring = wiring::streams(wiring::norm(wiring::x + o), wiring::y + o);
  static constexpr auto boundary = make_ends(wiring::x, wiring::x + wiring::norm(wiring::y));
};

static_assert(norm_placement<residual>);
static_assert(num_streams<residual> == 2);
static_assert(wiring::program<layer_of<residual>>::num_gains == 2);

}  // namespace accrete::inline v0::placement
