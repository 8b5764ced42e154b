#pragma once
#include "accrete/wiring/expression.hpp"

namespace accrete::inline v0::placement {

/// The two ends of the stack, as equations: what the streams start from, given the embedding `x`, and what the
/// head reads, given the streams. Their norms start from the teacher's final norm and are trained.
template <wiring::expression Entry, wiring::expression Readout>
struct ends {
  static constexpr Entry entry{};
  static constexpr Readout readout{};
};

/// `entry` may give one value: every stream then starts from it.
template <wiring::expression Entry, wiring::expression Readout>
constexpr ends<Entry, Readout> make_ends(Entry, Readout) {
  return {};
}

namespace boundary {
inline constexpr auto none = make_ends(wiring::x, wiring::x);
inline constexpr auto final_norm = make_ends(wiring::x, wiring::norm(wiring::x));
inline constexpr auto entry_norm = make_ends(wiring::norm(wiring::x), wiring::x);
inline constexpr auto both = make_ends(wiring::norm(wiring::x), wiring::norm(wiring::x));
}  // namespace boundary

}  // namespace accrete::inline v0::placement
