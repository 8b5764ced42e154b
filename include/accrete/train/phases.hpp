#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "accrete/growth/schedule.hpp"
#include "accrete/train/learning_rate.hpp"
#include "accrete/train/recipe.hpp"

namespace accrete::inline v0::train {

/// A plan in updates: what the trainer walks through.
struct phase_steps {
  index_t first = 0;           ///< updates of the run before this phase
  index_t count = 0;           ///< updates of this phase
  index_t schedule_first = 0;  ///< updates of the run before the learning rate's schedule began
  cosine_schedule rate;
};

/// Lengths times `recipe.steps`, rounded, at least one update each; a learning rate that proceeds shares one
/// schedule over all phases up to the next restart.
inline std::vector<phase_steps> phases_of(growth::plan_view plan, recipe const& r) {
  std::vector<phase_steps> all;
  index_t first = 0;
  for (auto const& phase : plan.phases) {
    phase_steps p;
    p.first = first;
    p.count = std::max<index_t>(1, index_t(std::llround(phase.length * double(r.steps))));
    first += p.count;
    all.push_back(p);
  }
  for (std::size_t i = 0; i < all.size();) {
    std::size_t end = i + 1;
    index_t total = all[i].count;
    while (end < all.size() && plan.phases[end].rate == growth::learning_rate::proceed)
      total += all[end++].count;
    cosine_schedule const rate{r.peak_learning_rate, r.min_learning_rate, warmup_updates(r.warmup, total),
                               total};
    for (std::size_t k = i; k < end; ++k) {
      all[k].rate = rate;
      all[k].schedule_first = all[i].first;
    }
    i = end;
  }
  return all;
}
inline index_t total_updates(std::vector<phase_steps> const& all) {
  return all.back().first + all.back().count;
}

/// Updates whose text the shard must hold: one unit where it is replayed, all of them where it must be fresh.
inline index_t shard_updates(growth::plan_view plan, recipe const& r) {
  return plan.data == growth::text::fresh ? total_updates(phases_of(plan, r)) : r.steps;
}

}  // namespace accrete::inline v0::train
