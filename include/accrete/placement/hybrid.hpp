#pragma once
#include <array>

#include "accrete/placement/norm_placement.hpp"

namespace accrete::inline v0::placement {

/// HybridNorm (arXiv 2503.04598): attention reads the raw stream and normalizes q, k and v per head; the MLP's
/// norm is of the sum, and its output is the skip as well (z below is used twice).
struct hybrid {
  static constexpr char const* name = "hybrid";
  static constexpr auto z = wiring::norm(wiring::x + wiring::attn(wiring::x));
  static constexpr auto wiring = z + wiring::mlp(z);
  static constexpr auto boundary = boundary::final_norm;
  static constexpr auto head_norms = head_norm::qkv;
  static constexpr std::array norm_names{"post_attention_layernorm"};
};

static_assert(norm_placement<hybrid>);
static_assert(wiring::program<layer_of<hybrid>>::num_gains == 1);

}  // namespace accrete::inline v0::placement
