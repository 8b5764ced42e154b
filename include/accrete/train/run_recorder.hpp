#pragma once
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <string>
#include <utility>

#include "accrete/core/error.hpp"
#include "accrete/core/view.hpp"
#include "accrete/data/document_order.hpp"
#include "accrete/train/records.hpp"
#include "accrete/train/run_state.hpp"

namespace accrete::inline v0::train {

/// Who listens. None of it changes a bit of the run.
struct run_events {
  std::function<void(step_record const&)> on_step{};
  std::function<void(evaluation_record const&)> on_evaluation{};
  std::function<void(std::string const&)> on_note{};  ///< phase begins, memory, what went wrong: one line each
  std::function<bool()>
      stop_wanted{};  ///< asked after each update, and during evaluations of a run that is kept
  /// The run goes on from a checkpoint, with the records that it holds.
  std::function<void(run_state const&, std::filesystem::path const&)> on_resume{};
};

namespace detail {
[[nodiscard]] inline double seconds_since(std::chrono::steady_clock::time_point t) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - t).count();
}
}  // namespace detail

/// Keeps the books of a run: what it has measured, counted and skipped, and tells those who listen.
class run_recorder {
 public:
  explicit run_recorder(run_events events) : events_(std::move(events)) {}

  run_state state;  ///< after the last update; its seconds are those of earlier attempts until `so_far`

  /// To be called once, when `state` is where the run begins or goes on.
  void start(std::string student, std::uint64_t seed, index_t total_updates) {
    state.result.student = std::move(student);
    state.result.seed = seed;
    state.result.steps.reserve(std::size_t(total_updates));
    seconds_before_ = state.result.seconds;
    started_ = clock::now();
  }
  /// The state with the time until now.
  run_state const& so_far() {
    state.result.seconds = seconds_before_ + detail::seconds_since(started_);
    return state;
  }

  /// The tokens of an update that was made; `order`: where it left the text. A phase may start over in the
  /// first pass: batches it has seen are not counted again as unique. The borders of that pass' batches are
  /// always the same.
  void count(step_record const& r, data::order_state order) {
    state.counts.total += r.tokens;
    state.counts.active_layer += double(r.tokens) * r.active_layers;
    if (order.epoch > 0 || order.position <= state.seen) return;
    state.seen = order.position;
    state.counts.unique += r.tokens;
  }
  /// An update that was passed over for `why`. Throws numeric_error when the run has had all that it may.
  void skip(step_record& r, numeric_error const& why, index_t allowed) {
    if (state.result.skipped == allowed)
      throw numeric_error(std::string(why.what()) + ", after " + std::to_string(state.result.skipped) +
                          " that were skipped");
    ++state.result.skipped;
    r.skipped = true;
    r.gradient_norm = std::numeric_limits<double>::quiet_NaN();
    r.clip_scale = 0;
    note(std::string(why.what()) + "; skipped, " + std::to_string(state.result.skipped) + " of " +
         std::to_string(allowed));
  }

  void tell(step_record const& r) const {
    if (events_.on_step) events_.on_step(r);
  }
  void tell(evaluation_record const& r) const {
    if (events_.on_evaluation) events_.on_evaluation(r);
  }
  void tell_resumed(std::filesystem::path const& checkpoint) const {
    if (events_.on_resume) events_.on_resume(state, checkpoint);
  }
  void note(std::string const& text) const {
    if (events_.on_note) events_.on_note(text);
  }
  [[nodiscard]] bool stop_wanted() const { return events_.stop_wanted && events_.stop_wanted(); }
  [[nodiscard]] run_events const& events() const { return events_; }

 private:
  using clock = std::chrono::steady_clock;

  run_events events_;
  clock::time_point started_ = clock::now();
  double seconds_before_ = 0;  // of attempts that this one goes on from
};

}  // namespace accrete::inline v0::train
