#pragma once
#include <array>
#include <concepts>
#include <cstddef>
#include <span>
#include <string>
#include <type_traits>

namespace accrete::inline v0 {
namespace growth {

/// What a phase trains, besides being able to run everything that is active.
enum class trains {
  everything,          ///< all active blocks, the ends and the head
  new_block_and_ends,  ///< blocks of earlier phases are frozen; the ends and the head go on
  new_block            ///< nothing but the block appended in this phase (in phase 0: as `everything`)
};
/// What the optimizer does with its moments and step count when a phase begins.
enum class optimizer_state { reset, keep };
/// Whether the learning rate starts over, warmup included, or goes on along one schedule over all phases.
enum class learning_rate { restart, proceed };
/// Whether the data iterator goes on in its cycle over the shard, or back to its first batch.
enum class data_order { proceed, reset };
/// Which text a plan draws: the shard of one unit of steps, replayed, or as much fresh text as it has steps.
enum class text { replayed, fresh };

struct phase {
  double length = 1.0;  ///< in units of the step count given at run time
  int active_blocks = 1;
  trains what = trains::everything;
  optimizer_state optimizer = optimizer_state::reset;
  learning_rate rate = learning_rate::restart;
  data_order data = data_order::proceed;
};

/// How depth is introduced, as data the compiler can check. New blocks go on top and are drawn fresh, each
/// layer from random streams keyed by its creation id, so that a block is the same whenever it is appended.
template <std::size_t Phases>
struct plan {
  int num_blocks = 0;
  int layers_per_block = 0;
  std::array<phase, Phases> phases{};
  text data = text::replayed;

  /// Layers when everything is active: what depth-dependent constants are taken at.
  [[nodiscard]] constexpr int final_depth() const { return num_blocks * layers_per_block; }
  [[nodiscard]] constexpr int num_phases() const { return int(Phases); }
  [[nodiscard]] constexpr int active_layers(int p) const {
    return phases[std::size_t(p)].active_blocks * layers_per_block;
  }
  /// Sum over phases of length x active layers: what active-layer tokens are proportional to.
  [[nodiscard]] constexpr double layer_units() const {
    double sum = 0;
    for (phase const& p : phases) sum += p.length * p.active_blocks * layers_per_block;
    return sum;
  }
};

/// A plan whatever its number of phases, for code that compiles once for all schedules. The plan must be
/// static.
struct plan_view {
  int num_blocks = 0;
  int layers_per_block = 0;
  std::span<phase const> phases;
  text data = text::replayed;

  template <std::size_t N>
  constexpr explicit plan_view(plan<N> const& p)
      : num_blocks(p.num_blocks), layers_per_block(p.layers_per_block), phases(p.phases), data(p.data) {}
  [[nodiscard]] constexpr int final_depth() const { return num_blocks * layers_per_block; }
  [[nodiscard]] constexpr int num_phases() const { return int(phases.size()); }
  [[nodiscard]] constexpr int active_layers(int p) const {
    return phases[std::size_t(p)].active_blocks * layers_per_block;
  }
};

template <class T>
inline constexpr bool is_plan = false;
template <std::size_t N>
inline constexpr bool is_plan<plan<N>> = true;

template <class S>
concept has_plan = requires {
  S::plan;
  requires is_plan<std::remove_cvref_t<decltype(S::plan)>>;
};
template <class S>
concept has_schedule_name = requires {
  { S::name() } -> std::convertible_to<std::string>;
};

/// Depth never shrinks, every phase has a length and at least one block, and the last one reaches the full
/// depth.
template <std::size_t N>
constexpr bool is_sound(plan<N> const& p) {
  if (p.num_blocks < 1 || p.layers_per_block < 1 || N == 0) return false;
  int active = 1;
  for (phase const& f : p.phases) {
    if (!(f.length > 0) || f.active_blocks < active || f.active_blocks > p.num_blocks) return false;
    active = f.active_blocks;
  }
  return active == p.num_blocks;
}
template <class S>
constexpr bool has_sound_plan() {
  if constexpr (has_plan<S>) return is_sound(S::plan);
  return true;  // the missing plan has a sentence of its own
}

}  // namespace growth

/// How depth is introduced: a struct with `static constexpr auto plan` (a growth::plan) and `static std::string
/// name()`. See docs/policies.md#growth_schedule.
template <class S>
concept growth_schedule = growth::has_plan<S> && growth::has_schedule_name<S> && growth::has_sound_plan<S>();

template <class S>
struct check_growth_schedule {
  static_assert(growth::has_plan<S>,
                "[accrete] growth_schedule: S needs 'static constexpr auto plan', a growth::plan<phases>. See "
                "docs/policies.md#growth_schedule");
  static_assert(
      growth::has_schedule_name<S>,
      "[accrete] growth_schedule: S needs 'static std::string name()'. See docs/policies.md#growth_schedule");
  static_assert(
      growth::has_sound_plan<S>(),
      "[accrete] growth_schedule: S::plan must have phases of positive length whose active_blocks never "
      "shrink and end at num_blocks. See docs/policies.md#growth_schedule");
};

}  // namespace accrete::inline v0
