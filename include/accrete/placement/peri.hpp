#pragma once
#include <array>

#include "accrete/placement/norm_placement.hpp"

namespace accrete::inline v0::placement {

/// Peri-LN (arXiv 2502.02732), the wiring of Sandwich-LN and Gemma 2: the branch is normalized on both sides.
/// The paper's norm of the embedding is optional; `peri_embedding` has it.
struct peri {
  static constexpr char const* name = "peri";
  static constexpr auto wiring = wiring::x + wiring::norm(wiring::f(wiring::norm(wiring::x)));
  static constexpr auto boundary = boundary::final_norm;
  static constexpr std::array norm_names{"input_layernorm", "post_attention_layernorm",
                                         "pre_feedforward_layernorm", "post_feedforward_layernorm"};
};
struct peri_embedding : peri {
  static constexpr char const* name = "peri_embedding";
  static constexpr auto boundary = boundary::both;
};

static_assert(norm_placement<peri> && norm_placement<peri_embedding>);
static_assert(wiring::program<layer_of<peri>>::num_gains == 4);

}  // namespace accrete::inline v0::placement
