#pragma once
#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "accrete/core/config.hpp"
#include "accrete/core/format.hpp"
#include "accrete/data/save_tokenizer.hpp"
#include "accrete/io/folder_lock.hpp"
#include "accrete/io/leftovers.hpp"
#include "accrete/io/line_log.hpp"
#include "accrete/io/writable_folder.hpp"
#include "accrete/model/fingerprint.hpp"
#include "accrete/model/save_pretrained.hpp"
#include "accrete/model/student.hpp"
#include "accrete/study/cell.hpp"
#include "accrete/study/tables.hpp"
#include "accrete/train/prepared_text.hpp"
#include "accrete/train/progress.hpp"
#include "accrete/train/run_log.hpp"
#include "accrete/train/trainer.hpp"
#include "accrete/wiring/text.hpp"

namespace accrete::inline v0::study {

struct runner_options {
  std::filesystem::path out = "runs/study";
  train::text_options text;
  std::vector<std::uint64_t> seeds{42};
  index_t longest_updates = 0;  ///< distinct updates of the longest run of the grid
  std::size_t num_cells = 0;    ///< of the grid, all seeds, for "2/4" in the progress lines; 0: not told
  bool save_students = false;   ///< each finished student as a directory below `out`/students
  std::FILE* progress = stderr;
  std::function<bool()> stop_wanted;
  /// Of the cell in progress, in a folder of its own below `out`/checkpoints, gone when the cell is finished.
  train::checkpoint_options checkpoints{.keep_best = false, .keep_final = false, .damaged_is_none = true};
};

/// Runs cells of a grid one after the other, skips those that a finished run left behind, goes on with one that
/// a stop or a crash left in progress, and logs every update to `out`/log.jsonl. While it lives, no other
/// process runs one in `out`.
template <backend B>
class runner {
 public:
  runner(teacher<B>& t, data::corpus const& text, recipe const& r, runner_options o)
      : teacher_(t),
        text_(text),
        recipe_(r),
        options_(std::move(o)),
        text_identity_(fmt::format("{:016x}", text.identity())) {
    io::require_writable_folder(options_.out);
    lock_.emplace(options_.out);
    if (!lock_->held())
      note(options_.out.string() + ": no locks there; see that no other process writes to it");
    for (auto const& folder : {options_.out, options_.out / "cells"}) io::remove_leftovers(folder);
    log_.emplace(options_.out / "log.jsonl");
  }

  /// All seeds of one configuration. False when a stop was wanted: the cell that ran is kept as it stands, to
  /// go on from there.
  template <norm_placement P, growth_schedule S, class Layer = layer::like_teacher>
  bool run() {
    auto make = [this](seed s) -> std::unique_ptr<model::grown_model<B>> {
      return std::make_unique<student<P, S, B, Layer>>(teacher_, s);
    };
    growth::plan_view const plan(S::plan);
    auto const student_text =
        fmt::format("{}: {}; {}: {}; {}", placement::name_of<P>(), model::fingerprint<P>(plan.final_depth()),
                    S::name(), model::fingerprint(plan), Layer::name);
    auto const save_student = [](model::grown_model<B>& m, std::filesystem::path const& folder) {
      save_pretrained<P>(m, folder);
    };
    return run_seeds(placement::name_of<P>(), S::name(), student_text, make, save_student);
  }

  [[nodiscard]] results const& finished() const { return results_; }
  [[nodiscard]] std::size_t num_run() const { return num_run_; }
  [[nodiscard]] std::string const& text_identity() const { return text_identity_; }

 private:
  bool run_seeds(
      std::string const& placement, std::string const& schedule, std::string const& student_text,
      std::function<std::unique_ptr<model::grown_model<B>>(seed)> const& make,
      std::function<void(model::grown_model<B>&, std::filesystem::path const&)> const& save_student) {
    for (auto s : options_.seeds) {
      ++cell_number_;
      cell c;
      c.placement = placement;
      c.schedule = schedule;
      c.seed = s;
      c.settings = settings_of(student_text, s);
      auto const student_folder = student_folder_of(c);
      auto done = load(options_.out, c.settings);
      if (done && (!options_.save_students || std::filesystem::exists(student_folder / "config.json"))) {
        remove_checkpoints(c);
        note(title_of(c) + "  finished before, kept");
        results_.add(*std::move(done));
        continue;
      }
      auto& text = prepared();
      auto const model = make(seed{s});
      if (!train_cell(*model, text, c)) return false;
      if (options_.save_students) {
        if (teacher_.has_tokenizer()) data::save_tokenizer(teacher_.tokenizer(), student_folder);
        save_student(*model, student_folder);
      }
      save(c, options_.out);
      remove_checkpoints(c);
      results_.add(std::move(c));
    }
    return true;
  }

  bool train_cell(model::grown_model<B>& model, train::prepared_text<B> const& text, cell& c) {
    recipe r = recipe_;
    r.seed = seed{c.seed};
    train::progress_line line(title_of(c), train::total_updates(train::phases_of(model.schedule(), r)),
                              options_.progress);
    train::run_log const log(*log_, {{"placement", c.placement}, {"schedule", c.schedule}, {"seed", c.seed}});
    log.append({{"kind", "begin"}, {"settings", c.settings}});
    auto keep = options_.checkpoints;
    keep.folder = checkpoints_of(c);
    ++num_run_;
    train::trainer<B> run(model, teacher_, text.for_updates(train::shard_updates(model.schedule(), r), r.seed),
                          r, log.attach(events_of(c, line)), std::move(keep));
    auto const result = run.run();
    model.parameters([&](auto& p) {
      c.parameters += p.value.size();
      if (p.trainable()) c.trained_parameters += p.value.size();
    });
    c.seconds = result.seconds;
    c.skipped = result.skipped;
    c.evaluations = result.evaluations;
    return result.finished;
  }

  [[nodiscard]] std::filesystem::path student_folder_of(cell const& c) const {
    auto name = fmt::format("{}-{}-seed{}", c.placement, c.schedule, c.seed);
    for (char& letter : name)
      if (!std::isalnum(static_cast<unsigned char>(letter)) && letter != '-') letter = '_';
    return options_.out / "students" / name;
  }
  [[nodiscard]] std::filesystem::path checkpoints_of(cell const& c) const {
    return options_.out / "checkpoints" / cell_path(options_.out, c.settings).stem();
  }
  void remove_checkpoints(cell const& c) const {
    std::error_code ignored;
    std::filesystem::remove_all(checkpoints_of(c), ignored);
    std::filesystem::remove(options_.out / "checkpoints", ignored);  // if it is empty
  }

  /// "2/4 post, grow", with the seed where there are several; later ones line up with earlier ones.
  std::string title_of(cell const& c) {
    auto text =
        options_.num_cells > 0 ? fmt::format("{}/{} ", cell_number_, options_.num_cells) : std::string();
    text += c.placement + ", " + c.schedule;
    if (options_.seeds.size() > 1) text += fmt::format(", seed {}", c.seed);
    title_width_ = (std::max)(title_width_, text.size());
    text.resize(title_width_, ' ');
    return text;
  }

  /// Tells the terminal what happens in a cell; both must outlive the run.
  train::run_events events_of(cell const& c, train::progress_line& line) {
    train::run_events events;
    events.on_step = [&line](train::step_record const& s) { line.show(s); };
    events.on_evaluation = [this, &line, &c](train::evaluation_record const& e) {
      line.note(fmt::format("{}  validation after step {}: ce {:.3f}  kd {:.3f}  perplexity {}", title_of(c),
                            e.step, e.ce, e.kd, rough_text(std::exp(e.ce))));
    };
    events.on_note = [this, &line, &c](std::string const& text) { line.note(title_of(c) + "  " + text); };
    events.stop_wanted = options_.stop_wanted;
    return events;
  }

  /// Made when the first cell wants it: where all are finished the teacher is not asked at all.
  train::prepared_text<B>& prepared() {
    if (!prepared_) {
      prepared_ = std::make_unique<train::prepared_text<B>>(teacher_, text_, recipe_, options_.longest_updates,
                                                            options_.text);
      if (!options_.text.cache_folder.empty())
        note(fmt::format("teacher's states: {}",
                         prepared_->teacher_reused() ? "from the cache" : "computed and cached"));
    }
    return *prepared_;
  }

  /// Everything a cell's numbers depend on.
  std::string settings_of(std::string const& student_text, std::uint64_t s) const {
    auto const& r = recipe_;
    // Numbers as `{}` writes them come back to the same bits.
    return fmt::format(
        "accrete {}.{}; {}; backend {}, {} bytes; teacher {}; text {}; validation {} of split {}; seed {}; "
        "steps {}; batch "
        "{}; micro "
        "{}; "
        "lr {} to {}, warmup {}; adam {} {} {}, decay {}, clip {}; tau {}, alpha {}, gamma {}; evaluate every "
        "{}",
        ACCRETE_VERSION_MAJOR, ACCRETE_VERSION_MINOR, student_text, B::name(), sizeof(typename B::scalar),
        teacher_.identity(), text_identity_, options_.text.validation_documents, options_.text.split_seed.value,
        s, r.steps, r.batch_tokens, r.micro_tokens, r.peak_learning_rate, r.min_learning_rate, r.warmup,
        r.beta1, r.beta2, r.epsilon, r.weight_decay, r.max_gradient_norm, r.temperature, r.alpha, r.gamma,
        r.evaluate_every);
  }
  void note(std::string const& text) const {
    fmt::print(options_.progress, "{}\n", text);
    std::fflush(options_.progress);
  }

  teacher<B>& teacher_;
  data::corpus const& text_;
  recipe recipe_;
  runner_options options_;
  std::string text_identity_;
  std::optional<io::folder_lock> lock_;
  std::optional<io::line_log> log_;
  std::unique_ptr<train::prepared_text<B>> prepared_;
  results results_;
  std::size_t num_run_ = 0;
  std::size_t cell_number_ = 0;
  std::size_t title_width_ = 16;
};

}  // namespace accrete::inline v0::study
