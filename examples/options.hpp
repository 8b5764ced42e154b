#pragma once
// What the programs share: command-line options, and how they end.
#include <accrete/core/error.hpp>
#include <accrete/data/corpus.hpp>
#include <accrete/data/open.hpp>
#include <accrete/train/checkpoint_folder.hpp>
#include <accrete/train/progress.hpp>
#include <accrete/train/recipe.hpp>
#include <accrete/train/stop_signal.hpp>
#include <cerrno>
#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace options {

/// What is learnt from, and how it is cut.
struct text {
  std::vector<std::filesystem::path> paths;
  std::string cut = "windows";
  std::string field = "text";
  accrete::index_t length = 128;

  void declare(CLI::App& app) {
    app.add_option(
           "--text", paths,
           "files or folders of .txt, .md, .rst, .pod, .jsonl, also as .gz or .zst; or of shards (see prepare)")
        ->required();
    app.add_option("--field", field, "the text's key in a line of JSON")->capture_default_str();
    app.add_option("--length", length, "most tokens of a document")
        ->capture_default_str()
        ->check(CLI::Range(2, 1 << 20));
    app.add_option("--cut", cut, "first: a document's first tokens (the paper); windows: all of it, in pieces")
        ->capture_default_str()
        ->check(CLI::IsMember({"first", "windows"}));
  }
  [[nodiscard]] accrete::data::cutting cutting() const {
    return {cut == "first" ? accrete::data::cutting::first : accrete::data::cutting::windows, length};
  }
  [[nodiscard]] accrete::data::open_options how() const { return {cutting(), {.field = field}}; }
};

inline void declare(CLI::App& app, accrete::recipe& r) {
  auto add = [&](char const* name, auto& value, char const* help) {
    app.add_option(name, value, help)->capture_default_str()->group("Training");
  };
  add("--steps", r.steps, "updates in a phase; joint takes this many, grow three times as many");
  add("--batch-tokens", r.batch_tokens, "most tokens of an update");
  add("--micro-tokens", r.micro_tokens, "most tokens in memory at once; 0: the whole update");
  add("--lr", r.peak_learning_rate, "peak learning rate");
  add("--min-lr", r.min_learning_rate, "learning rate at the end of a schedule");
  add("--warmup", r.warmup, "fraction of a schedule; -1: 10% below 2,000 updates, else 1.5%");
  add("--beta1", r.beta1, "of AdamW");
  add("--beta2", r.beta2, "of AdamW");
  add("--epsilon", r.epsilon, "of AdamW");
  add("--weight-decay", r.weight_decay, "on matrices, not on norm gains");
  add("--clip", r.max_gradient_norm, "most global gradient norm");
  add("--temperature", r.temperature, "tau of the distillation loss");
  add("--alpha", r.alpha, "weight of the distillation loss");
  add("--gamma", r.gamma, "weight of the cross-entropy");
  add("--logits-bytes", r.logits_bytes, "budget of the slice of both models' logits that exists at once");
  app.add_option_function<std::string>(
         "--recompute", [&r](std::string const& name) { r.recompute = *accrete::recomputation_of(name); },
         "what is made again rather than kept: less memory, more time, the same numbers")
      ->default_str("none")
      ->check(CLI::IsMember({"none", "mlp", "layer", "block"}))
      ->group("Training");
  add("--evaluate-every", r.evaluate_every, "updates between evaluations; 0: at the end of phases");
  add("--skip-nonfinite", r.skip_nonfinite,
      "updates that may be passed over for a loss or gradient that is not finite");
}

/// How often a run is kept, so that what ends it costs no more than the last minutes.
inline void declare(CLI::App& app, accrete::train::checkpoint_options& o) {
  auto add = [&](char const* name, auto& value, char const* help) {
    app.add_option(name, value, help)->capture_default_str()->group("Checkpoints");
  };
  add("--checkpoint-every", o.every_steps, "updates between checkpoints; 0: by time alone");
  add("--checkpoint-minutes", o.every_minutes, "minutes between checkpoints; 0: by updates alone");
  add("--keep", o.keep_last, "the last so many are kept");
}

/// Where the teacher's states are kept between runs.
inline std::filesystem::path default_cache() {
  if (char const* set = std::getenv("ACCRETE_CACHE"); set != nullptr && *set != 0)
    return std::filesystem::path(set) / "teacher-states";
  char const* home = std::getenv("HOME");
  return std::filesystem::path(home != nullptr ? home : ".") / ".cache/accrete/teacher-states";
}

/// Shows how far a teacher is on a text. A stop while it runs ends the program: its answers are kept whole or
/// not at all.
class teacher_progress {
 public:
  void operator()(accrete::index_t done, accrete::index_t all) {
    line_.show(done, all);
    if (accrete::train::stop_signal::stop_wanted())
      throw accrete::error("stopped while the teacher ran; nothing half-written is left");
  }

 private:
  accrete::train::token_count_line line_{"teacher"};
};

/// The exit code after a stop, as shells give it: 130 after Ctrl-C.
inline int stopped() {
  return 128 + accrete::train::stop_signal::number();
}

/// Does a program's work: an error is one line and exit code 1, and a result that could not be printed is one
/// too.
template <class Work>
int guarded(Work&& work) {
  try {
    int const code = std::forward<Work>(work)();
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
      throw accrete::io_error("standard output", "'" + std::generic_category().message(errno) + "'",
                              "to write all of it");
    return code;
  } catch (std::exception const& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return accrete::train::stop_signal::stop_wanted() ? stopped() : 1;
  }
}

}  // namespace options
