#pragma once
#include <array>

#include "accrete/placement/norm_placement.hpp"

namespace accrete::inline v0::placement {

/// Pre-norm (Xiong et al. 2020, arXiv 2002.04745): the branch reads a normalized copy, the stream itself is
/// never normalized, so a final norm stands before the head. What Llama and Qwen3 are.
struct pre {
  static constexpr char const* name = "pre";
  static constexpr auto wiring = wiring::x + wiring::f(wiring::norm(wiring::x));
  static constexpr auto boundary = boundary::final_norm;
  static constexpr std::array norm_names{"input_layernorm", "post_attention_layernorm"};
};

static_assert(norm_placement<pre>);
static_assert(wiring::program<layer_of<pre>>::num_gains == 2);
static_assert(wiring::program<layer_of<pre>>::num_kept == 2, "its input and the sum between the sublayers");
static_assert(wiring::program<layer_of<pre>>::num_fused == 1,
              "the second add meets the next layer's norm outside");

}  // namespace accrete::inline v0::placement
