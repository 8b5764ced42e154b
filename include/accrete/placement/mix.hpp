#pragma once
#include <array>

#include "accrete/placement/post.hpp"
#include "accrete/placement/pre.hpp"

namespace accrete::inline v0::placement {

/// Mix-LN (arXiv 2412.13795): post-norm in the lowest quarter of the layers, pre-norm above. The boundary is
/// that of the final depth. Final norm, no entry norm.
struct mix {
  struct lowest_quarter {
    static constexpr char const* name = "layer < L/4";
    static constexpr bool at(wiring::site s) { return s.layer < s.depth / 4; }
  };
  static constexpr char const* name = "mix";
  static constexpr auto wiring = wiring::by_depth<lowest_quarter>(post::wiring, pre::wiring);
  static constexpr auto boundary = boundary::final_norm;
};

static_assert(norm_placement<mix>);
static_assert(mix::lowest_quarter::at({2, 12}) && !mix::lowest_quarter::at({3, 12}),
              "3 of 12, the authors' setting");

}  // namespace accrete::inline v0::placement
