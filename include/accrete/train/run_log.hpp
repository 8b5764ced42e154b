#pragma once
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "accrete/core/format.hpp"
#include "accrete/io/line_log.hpp"
#include "accrete/train/log_lines.hpp"
#include "accrete/train/records.hpp"
#include "accrete/train/run_facts.hpp"
#include "accrete/train/run_recorder.hpp"
#include "accrete/train/run_state.hpp"

namespace accrete::inline v0::train {

/// An object of texts.
inline nlohmann::ordered_json to_json(run_facts const& facts) {
  auto all = nlohmann::ordered_json::object();
  for (auto const& f : facts) all[f.key] = f.value;
  return all;
}

/// Writes what a run tells to a log of JSON lines, as it is told. Every line has the fields of its run and the
/// name of its attempt: a run that ended early and goes on is another attempt, which says after which step of
/// an earlier one it goes on. Lines after that step are written again then, with the same numbers but for the
/// seconds, so a reader takes the last line of each step.
class run_log {
 public:
  /// `fields`: an object whose members all lines have. The log must outlive this.
  explicit run_log(io::line_log& to, nlohmann::ordered_json fields = nlohmann::ordered_json::object())
      : log_(&to), fields_(std::move(fields)) {
    static std::uint64_t number = 0;
    auto const now = std::chrono::system_clock::now().time_since_epoch().count();
    fields_["attempt"] = fmt::format("{:016x}-{}-{}", std::uint64_t(now), ::getpid(), ++number);
  }

  void append(nlohmann::ordered_json line) const {
    line.update(fields_);
    log_->append(line.dump());
  }

  /// `events` that write first and tell their listeners then. The result refers to this.
  [[nodiscard]] run_events attach(run_events events) const {
    run_events all = events;
    all.on_step = [this, next = std::move(events.on_step)](step_record const& r) {
      append(to_json(r));
      if (next) next(r);
    };
    all.on_evaluation = [this, next = std::move(events.on_evaluation)](evaluation_record const& r) {
      append(to_json(r));
      if (next) next(r);
    };
    all.on_note = [this, next = std::move(events.on_note)](std::string const& text) {
      append({{"kind", "note"}, {"text", text}});
      if (next) next(text);
    };
    all.on_resume = [this, next = std::move(events.on_resume)](run_state const& s,
                                                               std::filesystem::path const& checkpoint) {
      append({{"kind", "resume"}, {"step", s.step()}, {"checkpoint", checkpoint.filename().string()}});
      if (next) next(s, checkpoint);
    };
    return all;
  }

 private:
  io::line_log* log_;
  nlohmann::ordered_json fields_;
};

}  // namespace accrete::inline v0::train
