#pragma once
#include <array>
#include <cstddef>
#include <string>

#include "accrete/growth/schedule.hpp"

namespace accrete::inline v0::growth {

/// The study's freeze control: blocks 0..p are frozen when block p + 1 is appended; they get no gradient and no
/// optimizer state. The paper names blocks only, so the ends and the head go on training; `strict` trains
/// nothing but the new block.
template <int K, int L, trains What = trains::new_block_and_ends>
struct freeze {
  using strict = freeze<K, L, trains::new_block>;
  static constexpr auto plan = [] {
    growth::plan<std::size_t(K)> p{K, L, {}};
    for (int i = 0; i < K; ++i)
      p.phases[std::size_t(i)] = phase{.active_blocks = i + 1, .what = i == 0 ? trains::everything : What};
    return p;
  }();
  static std::string name() { return What == trains::new_block ? "freeze (strict)" : "freeze"; }
};

static_assert(growth_schedule<freeze<3, 3>> && growth_schedule<freeze<3, 3>::strict>);

}  // namespace accrete::inline v0::growth
