#pragma once
#include <array>
#include <cstddef>
#include <string>

#include "accrete/growth/schedule.hpp"

namespace accrete::inline v0::growth {

/// All K blocks of L layers from the first step on.
template <int K, int L>
struct joint {
  static constexpr auto plan = growth::plan<1>{K, L, {{{.active_blocks = K}}}};
  static std::string name() { return "joint"; }

  /// The study's budget controls: N units of steps on fresh text, the learning rate starting over at each. The
  /// paper names only the learning rate's restart, so the optimizer keeps its state unless asked.
  template <int N, optimizer_state State = optimizer_state::keep>
  struct restarted {
    static constexpr auto plan = [] {
      growth::plan<std::size_t(N)> p{K, L, {}, text::fresh};
      for (phase& f : p.phases) f = phase{.active_blocks = K, .optimizer = State};
      return p;
    }();
    static std::string name() {
      return "joint x" + std::to_string(N) + (State == optimizer_state::reset ? " (state reset)" : "");
    }
  };
};

static_assert(growth_schedule<joint<3, 3>>);
static_assert(growth_schedule<joint<3, 3>::restarted<2>>);
static_assert(joint<3, 3>::plan.final_depth() == 9 && joint<3, 3>::plan.layer_units() == 9.0);

}  // namespace accrete::inline v0::growth
