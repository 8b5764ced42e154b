#pragma once
// The study for one format of numbers: a grid of student types, distilled from one teacher on one text.
#include <accrete/accrete.hpp>
#include <accrete/io/safetensors_dtype.hpp>
#include <accrete/io/writable_folder.hpp>
#include <accrete/study/report.hpp>
#include <accrete/study/runner.hpp>
#include <accrete/train/stop_signal.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "../options.hpp"

namespace ac = accrete;

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
  std::string dtype = "auto";
  int threads = 0;
  bool quick = false;
  bool controls = false;
  bool save_students = false;
  bool no_cache = false;
  ac::train::checkpoint_options checkpoints = ac::study::runner_options().checkpoints;
  ac::recipe recipe{.steps = 160, .batch_tokens = 256, .peak_learning_rate = 2e-4};
};

inline bool contains(std::vector<std::string> const& all, std::string const& one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

/// Cells of the grid that were asked for, for one seed.
inline std::size_t num_configurations(settings const& o) {
  std::size_t count = 0;
  ac::for_each_configuration(placements{}, schedules{}, [&]<class P, class S>() {
    count += contains(o.placements, ac::placement::name_of<P>()) && contains(o.schedules, S::name());
  });
  return count;
}

/// Distinct updates of the longest run that was asked for.
inline ac::index_t longest_updates(settings const& o) {
  ac::index_t longest = 0;
  ac::for_each_configuration(ac::types<ac::placement::pre>{}, schedules{}, [&]<class, class S>() {
    if (contains(o.schedules, S::name()))
      longest = std::max(longest, ac::train::shard_updates(ac::growth::plan_view(S::plan), o.recipe));
  });
  return longest;
}

/// Who computes, with how many threads, and what matrices are multiplied in.
template <class Backend>
std::string backend_text(Backend const& ctx) {
  return fmt::format("{} in {}, {} threads", Backend::name(),
                     ac::io::name_of(ac::io::dtype_of<typename Backend::scalar>()), ctx.threads());
}

template <class Backend>
ac::study::report_facts facts_of(settings const& o, ac::teacher<Backend> const& t, ac::data::corpus const& text,
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
       fmt::format("{}; {}", ac::study::processor_name(), backend_text(t.context()))},
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

/// Everything but the command line, for one format of numbers.
template <class Backend>
int run_study(settings o) {
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
      ac::load_teacher<Backend>(o.teacher, o.threads > 0 ? Backend(o.threads) : Backend(), o.text.length);
  say(fmt::format("teacher: {}, {} layers, hidden {}, vocabulary {}; {}",
                  std::filesystem::path(o.teacher).filename().string(), teacher.config().num_hidden_layers,
                  teacher.config().hidden_size, teacher.config().vocab_size, backend_text(teacher.context())));
  auto const started = std::chrono::steady_clock::now();
  auto const text = ac::data::open(o.text.paths, teacher.tokenizer(), o.text.how());
  say(fmt::format("text: {} documents, {} tokens, read in {:.1f}s", text.num_documents(), text.num_tokens(),
                  std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count()));

  ac::study::runner<Backend> runner(teacher, text, o.recipe, std::move(ro));
  bool going = true;
  ac::for_each_configuration(placements{}, schedules{}, [&]<class P, class S>() {
    if (going && contains(o.placements, ac::placement::name_of<P>()) && contains(o.schedules, S::name()))
      going = runner.template run<P, S>();
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
