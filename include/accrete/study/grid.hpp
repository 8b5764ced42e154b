#pragma once
#include "accrete/core/types.hpp"

namespace accrete::inline v0 {

/// Calls `visit.template operator()<Placement, Schedule>()` for every pair, placements outermost.
template <class... Placement, class... Schedule, class Visit>
void for_each_configuration(types<Placement...>, types<Schedule...>, Visit&& visit) {
  auto row = [&]<class P>() { (visit.template operator()<P, Schedule>(), ...); };
  (row.template operator()<Placement>(), ...);
}
template <class Placements, class Schedules, class Visit>
void for_each_configuration(Visit&& visit) {
  for_each_configuration(Placements{}, Schedules{}, visit);
}

}  // namespace accrete::inline v0
