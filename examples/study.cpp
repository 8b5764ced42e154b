// The study: students of many types, distilled from one teacher on one text, and the tables that compare them.
#include <accrete/accrete.hpp>
#include <accrete/io/writable_folder.hpp>
#include <accrete/study/report.hpp>
#include <accrete/study/runner.hpp>
#include <accrete/train/stop_signal.hpp>
#include <algorithm>
#include <chrono>
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "options.hpp"

namespace ac = accrete;
using backend = ac::cpu::backend<float>;

// The grid: a type in one of these lists is a row or a column of the tables.
using placements =
    ac::types<ac::placement::pre, ac::placement::post, ac::placement::peri, ac::placement::olmo2,
              ac::placement::deepnorm, ac::placement::hybrid, ac::placement::mix, ac::placement::residual>;
constexpr int K = 3;  // blocks
constexpr int L = 3;  // layers of a block
using schedules = ac::types<ac::growth::joint<K, L>, ac::growth::curriculum<K, L>, ac::growth::freeze<K, L>,
                            ac::growth::freeze<K, L>::strict, ac::growth::joint<K, L>::restarted<2>,
                            ac::growth::joint<K, L>::restarted<3>>;

struct settings {
  std::string teacher;
  options::text text;
  std::filesystem::path out = "runs/study";
  std::filesystem::path cache;
  std::vector<std::string> placements{"pre", "post"};
  std::vector<std::string> schedules{"joint", "grow"};
  std::vector<std::uint64_t> seeds{42};
  ac::index_t validation_documents = 24;
  int threads = 0;
  bool quick = false;
  bool controls = false;
  bool save_students = false;
  bool no_cache = false;
  ac::train::checkpoint_options checkpoints = ac::study::runner_options().checkpoints;
  ac::recipe recipe{.steps = 64, .batch_tokens = 256, .peak_learning_rate = 2e-4};
};

template <class... T>
std::vector<std::string> names_of(ac::types<T...>) {
  auto name = []<class X>() {
    if constexpr (ac::norm_placement<X>)
      return ac::placement::name_of<X>();
    else
      return X::name();
  };
  return {name.template operator()<T>()...};
}
bool contains(std::vector<std::string> const& all, std::string const& one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

void declare(CLI::App& app, settings& o) {
  app.add_option("--teacher", o.teacher, "a Hugging Face directory or a GGUF file (Llama, Qwen2 or Qwen3 kind)")
      ->required();
  o.text.declare(app);
  app.add_option("--out", o.out, "where log.jsonl, table.csv, report.md and finished cells go")
      ->capture_default_str();
  app.add_flag("--quick", o.quick, "a smaller run, of a minute");
  app.add_option("--seeds", o.seeds, "the seeds themselves, as 1,2,3; tables get 95% intervals from two on")
      ->capture_default_str()
      ->delimiter(',');
  app.add_option("--placements", o.placements,
                 "rows of the tables; differences are from the first in the list above")
      ->capture_default_str()
      ->delimiter(',')
      ->check(CLI::IsMember(names_of(placements{})));
  app.add_option("--schedules", o.schedules, "columns of the tables")
      ->capture_default_str()
      ->delimiter(',')
      ->check(CLI::IsMember(names_of(schedules{})));
  app.add_flag("--controls", o.controls, "also joint x2 and joint x3, the budget controls on fresh text");
  app.add_flag("--save-students", o.save_students,
               "keep each student as a directory that transformers opens, below --out/students");
  app.add_option("--validation-documents", o.validation_documents, "held out, the same for all cells")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--threads", o.threads, "0: all")->capture_default_str()->check(CLI::Range(0, 1024));
  app.add_option("--cache", o.cache, "folder for the teacher's states [$ACCRETE_CACHE/teacher-states]");
  app.add_flag("--no-cache", o.no_cache, "run the teacher inside each update instead");
  options::declare(app, o.recipe);
  options::declare(app, o.checkpoints);
  app.footer(
      "Students have 3 blocks of 3 layers at the teacher's width: K and L in examples/study.cpp are compile "
      "time.\n"
      "A second run with the same settings skips finished cells and goes on inside of the one that was in "
      "progress.\nCtrl-C writes a checkpoint and leaves; a second one leaves at once. See docs/runs.md.");
}

/// Cells of the grid that were asked for, for one seed.
std::size_t num_configurations(settings const& o) {
  std::size_t count = 0;
  ac::for_each_configuration(placements{}, schedules{}, [&]<class P, class S>() {
    count += contains(o.placements, ac::placement::name_of<P>()) && contains(o.schedules, S::name());
  });
  return count;
}

/// Distinct updates of the longest run that was asked for.
ac::index_t longest_updates(settings const& o) {
  ac::index_t longest = 0;
  ac::for_each_configuration(ac::types<ac::placement::pre>{}, schedules{}, [&]<class, class S>() {
    if (contains(o.schedules, S::name()))
      longest = std::max(longest, ac::train::shard_updates(ac::growth::plan_view(S::plan), o.recipe));
  });
  return longest;
}

ac::study::report_facts facts_of(settings const& o, ac::teacher<backend> const& t, ac::data::corpus const& text,
                                 std::string const& text_identity) {
  auto const& r = o.recipe;
  auto const& c = t.config();
  ac::study::report_facts f;
  f.steps = r.steps;
  f.facts = {
      {"teacher", fmt::format("{} ({} layers, hidden {}, vocabulary {}; identity {})",
                              std::filesystem::path(o.teacher).filename().string(), c.num_hidden_layers,
                              c.hidden_size, c.vocab_size, t.identity())},
      {"text", fmt::format("{} documents, {} tokens, cut at {} ({}); identity {}", text.num_documents(),
                           text.num_tokens(), o.text.length, o.text.cut, text_identity)},
      {"student", fmt::format("{} blocks of {} layers at the teacher's width", K, L)},
      {"updates", fmt::format("{} a phase, of up to {} tokens", r.steps, r.batch_tokens)},
      {"seeds", fmt::format("{}", fmt::join(o.seeds, ", "))},
      {"learning rate", fmt::format("{:.1e} to {:.1e}, cosine, warmup {}", r.peak_learning_rate,
                                    r.min_learning_rate, ac::train::warmup_updates(r.warmup, r.steps))},
      {"optimizer", fmt::format("AdamW {}, {}, eps {:.0e}, decay {}, clip {}", r.beta1, r.beta2, r.epsilon,
                                r.weight_decay, r.max_gradient_norm)},
      {"loss", fmt::format("{} tau^2 KL + {} CE, tau {}", r.alpha, r.gamma, r.temperature)},
      {"validation", fmt::format("{} documents, fixed", o.validation_documents)},
      {"machine",
       fmt::format("{}, {} threads, {}", ac::study::processor_name(), t.context().threads(), backend::name())},
  };
  for (auto const& path : o.text.paths)
    if (std::ifstream origin(path.string() + ".origin"); origin) {
      std::string line;
      std::string all;
      while (std::getline(origin, line)) all += (all.empty() ? "" : ", ") + line;
      f.facts.emplace_back("text from", all);
    }
  ac::for_each_configuration(placements{}, ac::types<ac::growth::joint<K, L>>{}, [&]<class P, class>() {
    if (contains(o.placements, ac::placement::name_of<P>()))
      f.equations.emplace_back(ac::placement::name_of<P>(),
                               ac::wiring::equation_text(ac::placement::layer_of<P>{}));
  });
  return f;
}

/// A run of a few minutes; what was asked for by name stays.
void make_quick(CLI::App const& app, settings& o) {
  if (app.count("--steps") == 0) o.recipe.steps = 3;
  if (app.count("--batch-tokens") == 0) o.recipe.batch_tokens = 256;
  if (app.count("--validation-documents") == 0) o.validation_documents = 4;
}

int run(settings o) {
  if (o.controls) o.schedules.insert(o.schedules.end(), {"joint x2", "joint x3"});
  o.recipe.check();
  o.checkpoints.check();
  ac::train::stop_signal stop;
  auto say = [](std::string const& line) { fmt::print(stderr, "{}\n", line); };

  ac::study::runner_options ro;
  ro.out = o.out;
  ro.seeds = o.seeds;
  ro.checkpoints = o.checkpoints;
  ro.longest_updates = longest_updates(o);
  ro.save_students = o.save_students;
  ro.stop_wanted = [] { return ac::train::stop_signal::stop_wanted(); };
  ro.text.validation_documents = o.validation_documents;
  if (!o.no_cache) ro.text.cache_folder = o.cache.empty() ? options::default_cache() : o.cache;
  ro.text.on_teacher = options::teacher_progress();
  ro.num_cells = num_configurations(o) * o.seeds.size();
  ac::io::require_writable_folder(o.out);

  auto teacher =
      ac::load_teacher<backend>(o.teacher, o.threads > 0 ? backend(o.threads) : backend(), o.text.length);
  say(fmt::format("teacher: {}, {} layers, hidden {}, vocabulary {}",
                  std::filesystem::path(o.teacher).filename().string(), teacher.config().num_hidden_layers,
                  teacher.config().hidden_size, teacher.config().vocab_size));
  auto const started = std::chrono::steady_clock::now();
  auto const text = ac::data::open(o.text.paths, teacher.tokenizer(), o.text.how());
  say(fmt::format("text: {} documents, {} tokens, read in {:.1f}s", text.num_documents(), text.num_tokens(),
                  std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count()));

  ac::study::runner<backend> runner(teacher, text, o.recipe, std::move(ro));
  bool going = true;
  ac::for_each_configuration(placements{}, schedules{}, [&]<class P, class S>() {
    if (going && contains(o.placements, ac::placement::name_of<P>()) && contains(o.schedules, S::name()))
      going = runner.run<P, S>();
  });
  if (!going) {
    say("stopped. What is done is kept: the same command goes on from there.");
    return options::stopped();
  }
  auto const facts = facts_of(o, teacher, text, runner.text_identity());
  ac::study::write_report(runner.finished(), facts, o.out);
  fmt::print("\n");
  for (auto const& sentence : ac::study::standing(facts, o.seeds.size())) fmt::print("{}\n", sentence);
  for (auto const& sentence : ac::study::what_was_skipped(runner.finished())) fmt::print("{}\n", sentence);
  for (auto const& table : ac::study::all_tables(runner.finished()))
    fmt::print("\n{}", ac::study::to_plain(table));
  std::fflush(stdout);
  say(fmt::format("\nwritten: {0}/report.md, {0}/table.csv, {0}/log.jsonl", o.out.string()));
  return 0;
}

int main(int argc, char** argv) {
  settings o;
  CLI::App app{"Distils students whose normalization placement and growth schedule differ, and compares them."};
  declare(app, o);
  CLI11_PARSE(app, argc, argv);
  if (o.quick) make_quick(app, o);
  return options::guarded([&] { return run(std::move(o)); });
}
