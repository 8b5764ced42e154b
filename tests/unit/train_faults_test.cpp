// What may go wrong while a run is kept: killed processes, full and read-only disks, two of one kind.
#include <fmt/format.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <filesystem>
#include <limits>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "accrete/growth/curriculum.hpp"
#include "accrete/train/stop_signal.hpp"
#include "accrete/train/trainer.hpp"
#include "support/catch.hpp"
#include "support/child.hpp"
#include "support/files.hpp"
#include "support/small_disk.hpp"
#include "support/tiny_run.hpp"

using namespace accrete;
using test::same_bits;
using test::tiny_recipe;

namespace {

using run_type = test::tiny_run<placement::post, growth::curriculum<3, 1>>;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

train::checkpoint_options kept_in(std::filesystem::path folder, index_t every = 1) {
  train::checkpoint_options keep;
  keep.folder = std::move(folder);
  keep.every_minutes = 0;
  keep.every_steps = every;
  return keep;
}
std::vector<std::string> names_in(std::filesystem::path const& folder) {
  std::vector<std::string> names;
  std::error_code none;
  for (auto const& e : std::filesystem::directory_iterator(folder, none))
    names.push_back(e.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}
std::size_t half_written_in(std::filesystem::path const& folder) {
  std::size_t n = 0;
  for (auto const& name : names_in(folder)) n += io::is_temporary_name(name);
  return n;
}

/// A run from its beginning, or from where it is kept.
struct attempt {
  std::vector<std::string> notes;
  index_t went_on_after = -1;
  train::run_result result;
  test::snapshot state;

  attempt(recipe const& r, train::checkpoint_options const& keep, train::run_events events = {}) {
    auto const next = events.on_note;
    events.on_note = [this, next](std::string const& text) {
      notes.push_back(text);
      if (next) next(text);
    };
    events.on_resume = [this](train::run_state const& s, std::filesystem::path const&) {
      went_on_after = s.step();
    };
    run_type run(r, std::move(events), test::tiny_options(), {}, keep);
    result = run.go();
    state = test::training_state_of(run.student);
  }
};
bool same(attempt const& a, attempt const& b) {
  return test::same_result(a.result, b.result) && same_bits(a.state, b.state);
}
bool told(attempt const& a, std::string const& words) {
  return std::any_of(a.notes.begin(), a.notes.end(),
                     [&](std::string const& n) { return n.find(words) != std::string::npos; });
}

}  // namespace

TEST_CASE("fifty runs that are killed at random go on to the bits of one that lived", "[train][faults]") {
  auto r = tiny_recipe(8);
  r.evaluate_every = 3;
  attempt const whole(r, {});
  test::temporary_folder const folder;
  random_stream const stream(seed{20}, "test/kills");
  auto const keep = kept_in(folder / "run");
  auto const child = [&] { attempt const one(r, keep); };
  auto const begun = steady_clock::now();
  REQUIRE(test::status_of_child(child) == 0);
  double const life = std::chrono::duration<double>(steady_clock::now() - begun).count();
  std::filesystem::remove_all(folder / "run");

  int killed = 0, finished = 0, half_written = 0, went_on = 0;
  for (std::uint64_t i = 0; killed < 50 && i < 1000; ++i) {
    pid_t const running = test::start_child(child);
    std::this_thread::sleep_for(std::chrono::duration<double>(0.5 * life * stream.uniform(i)));
    ::kill(running, SIGKILL);
    int const status = test::status_of(running);
    if (WIFEXITED(status)) {
      REQUIRE(WEXITSTATUS(status) == 0);
      ++finished;
    } else {
      REQUIRE((WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
      ++killed;
    }
    half_written += half_written_in(folder / "run") > 0;
    // Whatever moment it was, what stands under a checkpoint's name is whole.
    std::error_code none;
    for (auto const& e : std::filesystem::directory_iterator(folder / "run", none))
      if (e.path().extension() == ".safetensors") {
        train::checkpoint_file const sound(e.path());
        went_on += sound.state().step() > 0;
      }
    if (WIFEXITED(status)) {  // another round
      attempt const last(r, keep);
      CHECK(last.went_on_after == 24);
      CHECK(same(last, whole));
      std::filesystem::remove_all(folder / "run");
    }
  }
  CHECK(killed == 50);
  WARN(killed << " killed, " << half_written << " of them while a file was half-written, " << finished
              << " rounds finished");
  CHECK(went_on > 0);
  attempt const last(r, keep);
  CHECK(same(last, whole));
  CHECK(half_written_in(folder / "run") == 0);
}

TEST_CASE("a run that is killed at any byte of a checkpoint goes on from the one before", "[train][faults]") {
  auto const r = tiny_recipe();
  attempt const whole(r, {});
  std::uintmax_t size = 0;
  {
    test::temporary_folder const folder;
    attempt const one(r, kept_in(folder / "run"));
    size = std::filesystem::file_size(folder / "run" / "step-00000008.safetensors");
  }
  for (auto const bytes :
       {std::uintmax_t(0), std::uintmax_t(1), std::uintmax_t(4096), size / 3, size / 2, size - 1}) {
    test::temporary_folder const folder;
    auto const keep = kept_in(folder / "run");
    int const status = test::status_of_child([&] {
      train::run_events events;
      events.on_step = [&](train::step_record const& s) {
        rlimit const limit{rlim_t(bytes), RLIM_INFINITY};  // the system kills whoever writes past it
        if (s.step == 8) ::setrlimit(RLIMIT_FSIZE, &limit);
      };
      attempt const dies(r, keep, events);
    });
    CAPTURE(bytes, size);
    REQUIRE((WIFSIGNALED(status) && WTERMSIG(status) == SIGXFSZ));
    CHECK(half_written_in(folder / "run") == 1);
    attempt const rest(r, keep);
    CHECK(rest.went_on_after == 7);
    CHECK(same(rest, whole));
    CHECK(half_written_in(folder / "run") == 0);
  }
}

TEST_CASE("a run whose disk is full goes on, and keeps itself again when there is room", "[train][faults]") {
  auto const r = tiny_recipe(4);
  attempt const whole(r, {});
  test::small_disk disk(1 << 20);
  INFO((disk.is_mounted() ? "on a tmpfs" : "under a limit on files"));
  if (!disk.is_mounted()) WARN("no tmpfs may be mounted here: the disk is a limit on the size of files");
  auto keep = kept_in(disk.path() / "run");
  keep.keep_best = false;
  train::run_events events;
  std::vector<std::string> during;
  events.on_step = [&](train::step_record const& s) {
    if (s.step == 5) disk.fill(2000);
    if (s.step == 8) {
      during = names_in(keep.folder);
      train::checkpoint_file const before(keep.folder / "step-00000004.safetensors");
      disk.make_room();
    }
  };
  attempt const run(r, keep, events);
  CHECK(same(run, whole));
  CHECK(told(run, "no checkpoint after step 5: io::"));
  CHECK(told(run, "no checkpoint after step 7: io::"));
  CHECK_FALSE(told(run, "no checkpoint after step 8"));
  CHECK(told(run, disk.is_mounted() ? "No space left on device" : "File too large"));
  for (auto const& n : run.notes) CHECK(test::one_line(n));
  CHECK(std::find(during.begin(), during.end(), "step-00000004.safetensors") != during.end());
  CHECK(half_written_in(keep.folder) == 0);
  attempt const again(r, keep);
  CHECK(again.went_on_after == 12);
  CHECK(same(again, whole));
}

TEST_CASE("a run that must leave while its disk is full says so, and goes on from the one before",
          "[train][faults]") {
  auto const r = tiny_recipe(4);
  attempt const whole(r, {});
  test::small_disk disk(1 << 20);
  auto const keep = kept_in(disk.path() / "run");
  train::run_events events;
  index_t done = 0;
  events.on_step = [&](train::step_record const& s) {
    done = s.step;
    if (done == 6) disk.fill(2000);
  };
  events.stop_wanted = [&] { return done == 6; };
  auto const text = test::error_of([&] { attempt const leaves(r, keep, events); });
  CAPTURE(text);
  CHECK(test::one_line(text));
  CHECK(text.find("step-00000006.safetensors") != std::string::npos);
  disk.make_room();
  attempt const rest(r, keep);
  CHECK(rest.went_on_after == 5);
  CHECK(same(rest, whole));
}

TEST_CASE("a run whose folder turns read-only goes on, and one that begins there does not", "[train][faults]") {
  auto const r = tiny_recipe(4);
  attempt const whole(r, {});
  test::small_disk disk(1 << 20);
  auto keep = kept_in(disk.path() / "run");
  train::run_events events;
  bool turned = false;
  events.on_step = [&](train::step_record const& s) {
    if (s.step == 5) turned = disk.set_writable(false);
    if (s.step == 8) disk.set_writable(true);
  };
  attempt const run(r, keep, events);
  CHECK(same(run, whole));
  if (turned)
    CHECK(told(run, "no checkpoint after step 6: io::"));
  else
    WARN("no tmpfs may be mounted here, and this user may write anywhere: /proc stands for the rest");
  disk.set_writable(false);
  for (auto const& folder : {turned ? keep.folder : std::filesystem::path("/proc/run"),
                             turned ? disk.path() / "other" : std::filesystem::path("/sys/run")}) {
    keep.folder = folder;
    index_t steps = 0;
    train::run_events counting;
    counting.on_step = [&](train::step_record const&) { ++steps; };
    auto const text = test::error_of([&] { attempt const none(r, keep, counting); });
    CAPTURE(folder, text);
    CHECK(test::one_line(text));
    CHECK(text.find("'" + folder.string()) != std::string::npos);
    CHECK(steps == 0);
  }
  disk.set_writable(true);
}

TEST_CASE("a disk without room for a checkpoint is refused before the first update", "[train][faults]") {
  test::small_disk disk(40960);
  if (!disk.is_mounted()) {
    train::checkpoint_folder const folder(kept_in(disk.path() / "run"));
    auto const most = (std::numeric_limits<std::uintmax_t>::max)();
    CHECK(test::one_line(test::error_of([&] { folder.require_room(most); })));
    return;
  }
  index_t steps = 0;
  train::run_events events;
  events.on_step = [&](train::step_record const&) { ++steps; };
  auto keep = kept_in(disk.path() / "run");
  auto const text = test::error_of([&] { attempt const none(tiny_recipe(), keep, events); });
  CAPTURE(text);
  CHECK(test::one_line(text));
  CHECK(text.find(" bytes free, expected ") != std::string::npos);
  CHECK(text.find(" for a checkpoint of the grown student") != std::string::npos);
  CHECK(steps == 0);
  keep.keep_final = false;  // nobody asked for one at the end: it is said, and the run goes on
  CHECK(attempt(tiny_recipe(), keep).result.finished);
}

TEST_CASE("two processes in one folder: the second is refused, and told who has it", "[train][faults]") {
  auto const r = tiny_recipe();
  attempt const whole(r, {});
  test::temporary_folder const folder;
  auto const keep = kept_in(folder / "run");
  int ready[2];
  REQUIRE(::pipe(ready) == 0);
  pid_t const first = test::start_child([&] {
    train::run_events events;
    events.on_step = [&](train::step_record const& s) {
      if (s.step != 5) return;
      (void)!::write(ready[1], "x", 1);
      for (;;) ::pause();
    };
    attempt const waits(r, keep, events);
  });
  char byte = 0;
  REQUIRE(::read(ready[0], &byte, 1) == 1);
  auto const text = test::error_of([&] { attempt const second(r, keep); });
  CAPTURE(text);
  CHECK(test::one_line(text));
  CHECK(text.find(fmt::format("folder '{}': got 'process {} on ", keep.folder.string(), first)) == 0);
  CHECK(text.find("writing there, expected no other") != std::string::npos);
  ::kill(first, SIGKILL);
  (void)test::status_of(first);
  attempt const third(r, keep);  // a dead owner locks nobody out
  CHECK(third.went_on_after == 4);
  CHECK(same(third, whole));
  for (int end : ready) ::close(end);
}

TEST_CASE("SIGINT, SIGTERM and SIGHUP write a checkpoint and leave in time", "[train][faults]") {
  auto r = tiny_recipe(100);
  r.batch_tokens = 9;
  r.evaluate_every = 7;
  attempt const whole(r, {});
  for (int const signal : {SIGINT, SIGTERM, SIGHUP}) {
    test::temporary_folder const folder;
    auto keep = kept_in(folder / "run", 0);
    int ready[2];
    REQUIRE(::pipe(ready) == 0);
    pid_t const running = test::start_child([&] {
      std::signal(signal, SIG_DFL);
      train::stop_signal const stop;
      train::run_events events;
      events.on_step = [&](train::step_record const& s) {
        if (s.step == 20) (void)!::write(ready[1], "x", 1);
      };
      events.stop_wanted = &train::stop_signal::stop_wanted;
      attempt const stopped(r, keep, events);
      ::_exit(stopped.result.finished ? 1 : 100 + train::stop_signal::number());
    });
    char byte = 0;
    REQUIRE(::read(ready[0], &byte, 1) == 1);
    auto const sent = steady_clock::now();
    ::kill(running, signal);
    int const status = test::status_of(running);
    CAPTURE(signal, status);
    CHECK(steady_clock::now() - sent < milliseconds(5000));
    CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 100 + signal));
    attempt const rest(r, keep);
    CHECK(rest.went_on_after >= 20);
    CHECK(same(rest, whole));
    for (int end : ready) ::close(end);
  }
}
