#pragma once
#include "accrete/placement/norm_placement.hpp"

namespace accrete::inline v0::placement {

/// Post-norm (Vaswani et al. 2017, arXiv 1706.03762) as the study runs it: the sum is normalized, one entry
/// norm on the embedding, none before the head, so that it has as many norms as `pre`.
struct post {
  static constexpr char const* name = "post";
  static constexpr auto wiring = wiring::norm(wiring::x + wiring::f(wiring::x));
  static constexpr auto boundary = boundary::entry_norm;
};

static_assert(norm_placement<post>);
static_assert(wiring::program<layer_of<post>>::num_gains == 2);
static_assert(wiring::program<layer_of<post>>::num_kept == 3, "its input and the two sums");
static_assert(wiring::program<layer_of<post>>::num_fused == 2, "both adds run inside their norms");

}  // namespace accrete::inline v0::placement
