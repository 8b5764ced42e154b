#pragma once
#include <array>

#include "accrete/placement/norm_placement.hpp"

namespace accrete::inline v0::placement {

/// OLMo 2's reordered norm (arXiv 2501.00656): the branch's output is normalized, its input is the raw stream.
struct olmo2 {
  static constexpr char const* name = "olmo2";
  static constexpr auto wiring = wiring::x + wiring::norm(wiring::f(wiring::x));
  static constexpr auto boundary = boundary::final_norm;
  static constexpr std::array norm_names{"post_attention_layernorm", "post_feedforward_layernorm"};
};

static_assert(norm_placement<olmo2>);
static_assert(wiring::program<layer_of<olmo2>>::num_gains == 2);

}  // namespace accrete::inline v0::placement
