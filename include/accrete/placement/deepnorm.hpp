#pragma once
#include <cmath>

#include "accrete/placement/norm_placement.hpp"

namespace accrete::inline v0::placement {

/// DeepNorm (arXiv 2203.00555), decoder-only: norm(alpha x + f(x)), alpha = (2L)^(1/4), and Xavier-normal init
/// with gain beta = (8L)^(-1/4) on value, output and MLP matrices, 1 on query and key. L is the final depth of
/// the plan, so that neither moves while the student grows.
struct deepnorm {
  struct alpha {
    static constexpr char const* name = "(2L)^(1/4)";
    static double at(wiring::site s) { return std::pow(2.0 * s.depth, 0.25); }
  };
  static double beta(wiring::site s) { return std::pow(8.0 * s.depth, -0.25); }

  static constexpr char const* name = "deepnorm";
  static constexpr wiring::constant<alpha> factor{};
  static constexpr auto wiring = wiring::norm(factor * wiring::x + wiring::f(wiring::x));
  static constexpr auto boundary = boundary::none;

  static double init_std(weight_role role, index_t fan_in, index_t fan_out, wiring::site where) {
    double const gain = role == weight_role::query || role == weight_role::key ? 1.0 : beta(where);
    return gain * std::sqrt(2.0 / double(fan_in + fan_out));
  }
};

static_assert(norm_placement<deepnorm>);
static_assert(wiring::program<layer_of<deepnorm>>::num_gains == 2);

}  // namespace accrete::inline v0::placement
