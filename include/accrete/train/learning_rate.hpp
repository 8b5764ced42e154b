#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>

#include "accrete/core/view.hpp"

namespace accrete::inline v0::train {

/// Linear warmup to the peak, then half a cosine down to the minimum, which the last update reaches. Updates
/// count from 1; with a warmup of 4 the first five run at 1/4, 2/4, 3/4, 1 and 1 of the peak.
struct cosine_schedule {
  double peak = 1e-4;
  double minimum = 1e-6;
  index_t warmup = 1;  ///< updates, at least 1
  index_t total = 1;   ///< updates

  [[nodiscard]] double at(index_t update) const {
    if (update <= warmup) return peak * double(update) / double(warmup);
    double const progress = double(update - warmup - 1) / double(std::max<index_t>(1, total - warmup - 1));
    double const cosine = std::cos(std::numbers::pi * (std::min)(1.0, progress));
    return minimum + 0.5 * (peak - minimum) * (1.0 + cosine);
  }
};

/// `fraction` < 0: 10% in schedules under 2,000 updates, where the paper's 1.5% is a handful of steps and
/// post-norm stalls on a plateau; else 1.5%. Never less than one update.
inline index_t warmup_updates(double fraction, index_t total) {
  double const used = fraction >= 0 ? fraction : (total < 2000 ? 0.10 : 0.015);
  return std::clamp<index_t>(index_t(std::llround(used * double(total))), 1, std::max<index_t>(1, total));
}

}  // namespace accrete::inline v0::train
