#pragma once
#include <array>
#include <cstddef>
#include <string>

#include "accrete/growth/joint.hpp"
#include "accrete/growth/schedule.hpp"

namespace accrete::inline v0::growth {

/// The study's schedule: phase p activates blocks 0..p of K, L layers each, for one unit of steps. Old weights
/// carry over, everything active trains, moments and learning rate start over, the data goes on in its cycle
/// over the one shard. `Data = data_order::reset` is the variant the paper compares.
template <int K, int L, data_order Data = data_order::proceed>
struct curriculum {
  static constexpr auto plan = [] {
    growth::plan<std::size_t(K)> p{K, L, {}};
    for (int i = 0; i < K; ++i) p.phases[std::size_t(i)] = phase{.active_blocks = i + 1, .data = Data};
    return p;
  }();
  static std::string name() { return std::string("grow") + (Data == data_order::reset ? " (data reset)" : ""); }
};

static_assert(growth_schedule<curriculum<3, 3>>);
static_assert(curriculum<3, 3>::plan.active_layers(0) == 3 && curriculum<3, 3>::plan.active_layers(2) == 9);
// The paper's match on active-layer tokens: 3 + 6 + 9 = 2 x 9.
static_assert(curriculum<3, 3>::plan.layer_units() == joint<3, 3>::restarted<2>::plan.layer_units());

}  // namespace accrete::inline v0::growth
