#include "accrete/study/runner.hpp"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "accrete/growth/curriculum.hpp"
#include "accrete/growth/joint.hpp"
#include "accrete/io/json.hpp"
#include "accrete/io/writable_folder.hpp"
#include "accrete/model/load_teacher.hpp"
#include "accrete/study/grid.hpp"
#include "accrete/study/report.hpp"
#include "support/catch.hpp"
#include "support/child.hpp"
#include "support/files.hpp"
#include "support/tiny_run.hpp"

using namespace accrete;

namespace {

using backend = reference::backend<double>;
using placements = types<placement::pre, placement::post>;
using schedules = types<growth::joint<3, 1>, growth::curriculum<3, 1>>;

/// What a program does with a grid, on a teacher and a text that take milliseconds.
struct grid_run {
  std::filesystem::path out;
  recipe r = test::tiny_recipe(2);
  std::vector<std::uint64_t> seeds{1, 2};
  std::filesystem::path cache = {};
  test::tiny_shape shape = {};
  index_t documents = 220;
  index_t stop_after = -1;  ///< updates
  index_t kill_after = -1;
  index_t checkpoint_every = 0;
  bool save_students = false;

  bool finished = false;
  std::size_t num_run = 0;
  study::results results = {};
  std::string tables = {}, progress = {};

  grid_run& go() {
    std::FILE* const screen = std::tmpfile();
    auto teacher = test::tiny_teacher<backend>(shape);
    auto const text = test::tiny_corpus(documents);
    study::runner_options o;
    o.out = out;
    o.text = test::tiny_options(cache);
    o.seeds = seeds;
    o.longest_updates = 3 * r.steps;
    o.save_students = save_students;
    o.progress = screen;
    auto const log = [this] {
      std::error_code none;
      return std::filesystem::exists(out / "log.jsonl", none) ? test::read_file(out / "log.jsonl")
                                                              : std::string();
    };
    auto const updates_told = [&] {
      index_t n = 0;
      auto const text = log();
      for (std::size_t at = 0; (at = text.find("\"kind\":\"step\"", at)) != std::string::npos; ++at) ++n;
      return n;
    };
    index_t const before = updates_told();
    o.stop_wanted = [&] {
      index_t const updates = updates_told() - before;
      if (updates == kill_after) std::raise(SIGKILL);
      return updates == stop_after;
    };
    o.checkpoints.every_steps = checkpoint_every;
    {
      study::runner<backend> runner(teacher, text, r, o);
      finished = true;
      for_each_configuration(placements{}, schedules{}, [&]<class P, class S>() {
        if (finished) finished = runner.run<P, S>();
      });
      num_run = runner.num_run();
      results = runner.finished();
    }
    tables.clear();
    for (auto const& t : study::all_tables(results)) tables += study::to_plain(t);
    progress.resize(std::size_t(std::ftell(screen)));
    std::rewind(screen);
    progress.resize(std::fread(progress.data(), 1, progress.size(), screen));
    std::fclose(screen);
    return *this;
  }
};

struct log_counts {
  std::size_t steps = 0, evaluations = 0;
  std::set<std::string> cells;
};
/// Throws where a line is no JSON.
log_counts read_log(std::filesystem::path const& path) {
  auto const text = test::read_file(path);
  log_counts n;
  if (text.empty() || text.back() != '\n') throw std::runtime_error("a torn last line");
  for (std::size_t at = 0; at < text.size();) {
    auto const line = std::string_view(text).substr(at, text.find('\n', at) - at);
    at += line.size() + 1;
    auto const record = io::json::parse(line, "log");
    auto const& kind = record.find("kind")->as_string("log");
    n.steps += kind == "step";
    n.evaluations += kind == "evaluation";
    n.cells.insert(record.find("placement")->as_string("log") + "/" +
                   record.find("schedule")->as_string("log") + "/" +
                   std::to_string(record.find("seed")->as_unsigned("log")));
  }
  return n;
}
/// File names below `folder`, without what a name depends on.
std::vector<std::string> files_below(std::filesystem::path const& folder) {
  std::vector<std::string> names;
  for (auto const& entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}
/// Seconds are the one number of a table's cells that no second run repeats.
std::string csv_without_seconds(study::results const& r) {
  auto cells = study::results();
  for (auto c : r.cells()) {
    c.seconds = 0;
    cells.add(c);
  }
  return study::to_csv(cells);
}

}  // namespace

TEST_CASE("a study runs every cell once, and a second run none", "[study][runner]") {
  test::temporary_folder const folder;
  auto const first = grid_run{folder / "out"}.go();
  CHECK(first.finished);
  CHECK(first.num_run == 8);  // 2 placements, 2 schedules, 2 seeds
  REQUIRE(first.results.cells().size() == 8);
  CHECK(first.results.placements() == std::vector<std::string>{"pre", "post"});
  CHECK(first.results.schedules() == std::vector<std::string>{"joint", "grow"});
  CHECK(first.results.seeds() == std::vector<std::uint64_t>{1, 2});
  for (auto const& c : first.results.cells()) {
    CHECK(c.num_phases() == (c.schedule == "grow" ? 3 : 1));
    CHECK(c.end_of_phase()->active_layers == 3);
    CHECK(c.trained_parameters > 0);
    CHECK(c.trained_parameters <= c.parameters);
  }
  // Other seeds, other students, the same held-out text.
  auto const& a = *first.results.find("pre", "joint", 1)->end_of_phase();
  auto const& b = *first.results.find("pre", "joint", 2)->end_of_phase();
  CHECK(a.ce != b.ce);
  CHECK(a.targets == b.targets);
  CHECK(first.tables.find(" ± ") != std::string::npos);

  auto const log = read_log(folder / "out/log.jsonl");
  CHECK(log.steps == 2 * 2 * (2 + 6));
  CHECK(log.evaluations == 2 * 2 * (1 + 3));
  CHECK(log.cells.size() == 8);
  auto const files = files_below(folder / "out");
  CHECK(files.size() == 9);  // eight cells and the log: no temporary ones

  auto const second = grid_run{folder / "out"}.go();
  CHECK(second.finished);
  CHECK(second.num_run == 0);
  CHECK(second.tables == first.tables);
  CHECK(study::to_csv(second.results) == study::to_csv(first.results));
  CHECK(read_log(folder / "out/log.jsonl").steps == log.steps);
  CHECK(files_below(folder / "out") == files);

  auto const elsewhere = grid_run{folder / "other"}.go();
  CHECK(elsewhere.num_run == 8);
  CHECK(csv_without_seconds(elsewhere.results) == csv_without_seconds(first.results));
}

TEST_CASE("a study runs again what a setting, the text or the teacher changed", "[study][runner]") {
  test::temporary_folder const folder;
  auto const base = [&] {
    grid_run g{folder.path()};
    g.seeds = {1};
    return g;
  };
  CHECK(base().go().num_run == 4);
  std::vector<grid_run> others(10, base());
  others[0].r.peak_learning_rate *= 1.0001;
  others[1].r.steps = 3;
  others[2].r.weight_decay = 0.2;
  others[3].r.temperature = 1.0;
  others[4].r.gamma = 0.31;
  others[5].r.epsilon = 1.0001e-8;
  others[6].r.warmup = 0.5;
  others[7].documents = 221;
  others[8].shape.weights = seed{12};
  others[9].r.batch_tokens = 25;
  for (std::size_t i = 0; i < others.size(); ++i) {
    INFO(i);
    CHECK(others[i].go().num_run == 4);
  }
  auto more = base();
  more.seeds = {1, 3};  // one more seed: its cells alone
  CHECK(more.go().num_run == 4);
  CHECK(more.results.cells().size() == 8);
  CHECK(base().go().num_run == 0);
}

TEST_CASE("a study that is stopped goes on inside of the cell it was in", "[study][runner]") {
  test::temporary_folder const folder;
  auto const whole = grid_run{folder / "whole"}.go();
  grid_run stopped{folder / "stopped"};
  stopped.stop_after = 2 + 2 + 3;  // pre joint takes two updates a seed; it is within pre grow of seed 1 then
  stopped.go();
  CHECK_FALSE(stopped.finished);
  REQUIRE(stopped.results.cells().size() == 2);
  for (auto const& c : stopped.results.cells()) CHECK(c.schedule == "joint");
  auto files = files_below(folder / "stopped");
  CHECK(files.size() == 4);  // two cells, the log, and where the third stands
  CHECK(files.back() == "step-00000003.safetensors");
  CHECK(read_log(folder / "stopped/log.jsonl").cells.size() == 3);  // the log tells of the stopped one, too

  grid_run rest{folder / "stopped"};
  rest.go();
  CHECK(rest.finished);
  CHECK(rest.num_run == 6);
  CHECK(rest.tables == whole.tables);
  CHECK(csv_without_seconds(rest.results) == csv_without_seconds(whole.results));
  CHECK(rest.progress.find("going on after step 3") != std::string::npos);
  // No update was done twice, and nothing is left but what a run that was never stopped leaves.
  CHECK(read_log(folder / "stopped/log.jsonl").steps == read_log(folder / "whole/log.jsonl").steps);
  CHECK(files_below(folder / "stopped") == files_below(folder / "whole"));
}

TEST_CASE("a study whose program dies goes on, and its log tells the attempts apart", "[study][runner][U57]") {
  test::temporary_folder const folder;
  auto const whole = grid_run{folder / "whole"}.go();
  for (int const update : {3, 9, 14}) {  // of all cells in turn; each kill loses what came after a checkpoint
    int const status = test::status_of_child([&] {
      grid_run dies{folder / "dies"};
      dies.checkpoint_every = 2;
      dies.kill_after = update;
      dies.go();
    });
    CHECK((WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
  }
  grid_run rest{folder / "dies"};
  rest.go();
  CHECK(rest.finished);
  CHECK(rest.tables == whole.tables);
  CHECK(csv_without_seconds(rest.results) == csv_without_seconds(whole.results));
  CHECK(files_below(folder / "dies") == files_below(folder / "whole"));

  // The last line of each step is the run's; a step that is there twice is there under two attempts.
  auto const last_lines = [](std::filesystem::path const& path) {
    std::map<std::string, std::string> last;
    std::set<std::string> told;
    auto const text = test::read_file(path);
    for (std::size_t at = 0; at < text.size();) {
      auto const line = std::string(text, at, text.find('\n', at) - at);
      at += line.size() + 1;
      auto j = nlohmann::json::parse(line);
      auto const kind = j.at("kind").get<std::string>();
      if (kind != "step" && kind != "evaluation") continue;
      auto const key = fmt::format("{} {} {} {} {}", j.at("placement").dump(), j.at("schedule").dump(),
                                   j.at("seed").dump(), kind, j.at("step").dump());
      CHECK(told.insert(key + j.at("attempt").dump()).second);
      for (char const* own : {"attempt", "seconds"}) j.erase(own);
      last[key] = j.dump();
    }
    return last;
  };
  auto const log = test::read_file(folder / "dies/log.jsonl");
  CHECK(last_lines(folder / "dies/log.jsonl") == last_lines(folder / "whole/log.jsonl"));
  CHECK(log.find("\"kind\":\"resume\"") != std::string::npos);
}

TEST_CASE("a cell whose checkpoints are all damaged is run again", "[study][runner]") {
  test::temporary_folder const folder;
  auto const whole = grid_run{folder / "whole"}.go();
  grid_run stopped{folder / "stopped"};
  stopped.stop_after = 2 + 2 + 3;
  stopped.go();
  for (auto const& entry : std::filesystem::recursive_directory_iterator(folder / "stopped" / "checkpoints"))
    if (entry.is_regular_file()) std::filesystem::resize_file(entry.path(), 100);
  grid_run rest{folder / "stopped"};
  rest.go();
  CHECK(rest.finished);
  CHECK(csv_without_seconds(rest.results) == csv_without_seconds(whole.results));
  CHECK(rest.progress.find("looking for an older one") != std::string::npos);
  CHECK(files_below(folder / "stopped") == files_below(folder / "whole"));
}

TEST_CASE("two studies in one folder are one too many", "[study][runner]") {
  test::temporary_folder const folder;
  auto teacher = test::tiny_teacher<reference::backend<double>>();
  auto const text = test::tiny_corpus();
  study::runner_options o;
  o.out = folder / "out";
  o.progress = stderr;
  study::runner<reference::backend<double>> const first(teacher, text, test::tiny_recipe(), o);
  auto const refused = test::error_of(
      [&] { study::runner<reference::backend<double>> const second(teacher, text, test::tiny_recipe(), o); });
  CAPTURE(refused);
  CHECK(test::one_line(refused));
  CHECK(refused.find("folder '" + o.out.string() + "': got 'process " + std::to_string(::getpid()) + " on ") ==
        0);
}

TEST_CASE("a damaged cell is run again, with the same result", "[study][runner]") {
  test::temporary_folder const folder;
  auto const first = grid_run{folder.path()}.go();
  auto const cells = folder / "cells";
  std::size_t damaged = 0;
  for (auto const& entry : std::filesystem::directory_iterator(cells)) {
    if (damaged == 3) break;
    auto const text = test::read_file(entry.path());
    test::write_file(entry.path(), damaged++ == 0 ? "" : text.substr(0, text.size() / 2));
  }
  auto const second = grid_run{folder.path()}.go();
  CHECK(second.num_run == 3);
  CHECK(second.tables == first.tables);
  CHECK(csv_without_seconds(second.results) == csv_without_seconds(first.results));
}

TEST_CASE("a study's numbers do not depend on the teacher's cache", "[study][runner]") {
  test::temporary_folder const folder;
  auto const live = grid_run{folder / "live"}.go();
  grid_run cached{folder / "cached"};
  cached.cache = folder / "states";
  cached.go();
  for (auto const& c : live.results.cells()) {
    auto const* other = cached.results.find(c.placement, c.schedule, c.seed);
    REQUIRE(other != nullptr);
    CHECK(other->end_of_phase()->ce == Approx(c.end_of_phase()->ce).epsilon(1e-6));
    CHECK(other->end_of_phase()->kd == Approx(c.end_of_phase()->kd).epsilon(1e-6));
  }
  CHECK(cached.progress.find("teacher's states: computed and cached") != std::string::npos);
  grid_run again{folder / "again"};
  again.cache = folder / "states";
  again.go();
  CHECK(again.progress.find("teacher's states: from the cache") != std::string::npos);
  CHECK(csv_without_seconds(again.results) == csv_without_seconds(cached.results));

  // One file for the training text and one for the held-out text, whatever the seeds.
  auto const files = [&] {
    return std::distance(std::filesystem::directory_iterator(folder / "states"),
                         std::filesystem::directory_iterator{});
  };
  CHECK(files() == 2);
  grid_run more{folder / "more"};
  more.cache = folder / "states";
  more.seeds = {7, 8};
  more.go();
  CHECK(more.progress.find("teacher's states: from the cache") != std::string::npos);
  CHECK(files() == 2);
}

TEST_CASE("a study keeps its students where that is asked for", "[study][runner]") {
  test::temporary_folder const folder;
  grid_run kept{folder / "runs"};
  kept.seeds = {1};
  kept.save_students = true;
  kept.go();
  REQUIRE(kept.num_run == 4);
  auto const students = folder / "runs" / "students";
  auto post = load_teacher<reference::backend<double>>(students / "post-grow-seed1", {}, 32, placement::post{});
  CHECK(post.config().num_hidden_layers == kept.results.find("post", "grow", 1)->end_of_phase()->active_layers);
  auto pre = load_teacher<reference::backend<double>>(students / "pre-joint-seed1", {}, 32);
  CHECK(pre.config().architecture == "llama");

  grid_run again{folder / "runs"};
  again.seeds = {1};
  again.save_students = true;
  std::filesystem::remove_all(students / "pre-joint-seed1");
  again.go();
  CHECK(again.num_run == 1);  // the one whose student is gone
  CHECK(load_teacher<reference::backend<double>>(students / "pre-joint-seed1", {}, 32).identity() ==
        pre.identity());
  CHECK(csv_without_seconds(again.results) == csv_without_seconds(kept.results));
}

TEST_CASE("a folder that takes no files is refused before a teacher is asked", "[study][runner]") {
  test::temporary_folder const folder;
  test::write_file(folder / "file", "x");
  for (auto const& out : {folder / "file", folder / "file/below", std::filesystem::path("/proc/out"),
                          std::filesystem::path("/dev/null/out")}) {
    auto const text = test::error_of([&] { io::require_writable_folder(out); });
    INFO(out);
    CHECK(test::one_line(text));
    CHECK(text.find("'" + out.string() + "'") != std::string::npos);
  }
  CHECK(folder.entries() == 1);
  CHECK(test::read_file(folder / "file") == "x");

  io::require_writable_folder(folder / "a/b");
  io::require_writable_folder(folder / "a/b");
  CHECK(files_below(folder / "a").empty());
  std::string full;
  {
    test::file_size_limit const limit(0);
    full = test::error_of([&] { io::require_writable_folder(folder / "full"); });
  }
  CHECK(test::one_line(full));
  CHECK(files_below(folder / "full").empty());
}

TEST_CASE("a text too small for a grid is refused before anything runs", "[study][runner]") {
  test::temporary_folder const folder;
  grid_run g{folder.path()};
  g.documents = 40;
  g.r.steps = 100;
  auto const text = test::error_of([&] { g.go(); });
  INFO(text);
  CHECK(test::one_line(text));
  CHECK(text.find("300") != std::string::npos);
  CHECK(files_below(folder.path()) == std::vector<std::string>{"log.jsonl"});
}
