#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "accrete/growth/curriculum.hpp"
#include "accrete/train/stop_signal.hpp"
#include "accrete/train/trainer.hpp"
#include "support/catch.hpp"
#include "support/child.hpp"
#include "support/files.hpp"
#include "support/tiny_run.hpp"

using namespace accrete;
using test::same_bits;
using test::tiny_recipe;
using test::tiny_run;

namespace {

using run_type = tiny_run<placement::pre, growth::curriculum<3, 1>>;
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

void mark(int) {}
void mark_too(int) {}

/// Sends `signal` to this process, and waits until it is taken.
void send(int signal) {
  ::kill(::getpid(), signal);
  for (int i = 0; i < 5000 && train::stop_signal::number() != signal; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}
bool takes(int signal) {
  sigset_t blocked;
  ::pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
  return sigismember(&blocked, signal) == 0;
}

/// The text of the numeric_error that `call` throws; empty where it throws none.
template <class Call>
std::string numeric_error_of(Call&& call) {
  try {
    call();
  } catch (numeric_error const& e) {
    return e.what();
  }
  return {};
}
template <class Run>
model::parameter<reference::backend<double>>& parameter_named(Run& run, std::string const& name) {
  model::parameter<reference::backend<double>>* found = nullptr;
  run.student.parameters([&](auto& p) {
    if (p.name() == name) found = &p;
  });
  REQUIRE(found != nullptr);
  return *found;
}

}  // namespace

TEST_CASE("a run that is asked to stop ends after the step it is in", "[train][stop]") {
  run_type straight(tiny_recipe());
  auto const whole = straight.go();
  for (std::size_t const last : {1u, 3u, 4u, 8u}) {
    train::run_events events;
    std::size_t steps = 0;
    events.on_step = [&](train::step_record const&) { ++steps; };
    events.stop_wanted = [&] { return steps == last; };
    run_type run(tiny_recipe(), events);
    auto const result = run.go();
    CAPTURE(last);
    CHECK_FALSE(result.finished);
    REQUIRE(result.steps.size() == last);
    CHECK(test::same_records(result.steps, {whole.steps.begin(), whole.steps.begin() + std::ptrdiff_t(last)}));
    CHECK(result.evaluations.size() == last / 3);
  }
}

TEST_CASE("a stop after the last step finds a run that is finished", "[train][stop]") {
  train::run_events events;
  std::size_t steps = 0;
  events.on_step = [&](train::step_record const&) { ++steps; };
  events.stop_wanted = [&] { return steps == 9; };
  run_type run(tiny_recipe(), events);
  auto const result = run.go();
  CHECK(result.finished);
  CHECK((result.steps.size() == 9 && result.evaluations.size() == 3));
}

TEST_CASE("SIGINT and SIGTERM stop a run after its step, and the handlers before come back", "[train][stop]") {
  for (int const signal : {SIGINT, SIGTERM}) {
    auto* const int_before = std::signal(SIGINT, &mark);
    auto* const term_before = std::signal(SIGTERM, &mark_too);
    {
      train::stop_signal const stop;
      CHECK_FALSE(train::stop_signal::stop_wanted());
      CHECK(train::stop_signal::number() == 0);
      train::run_events events;
      events.on_step = [&](train::step_record const& s) {
        if (s.step == 4) send(signal);
      };
      events.stop_wanted = &train::stop_signal::stop_wanted;
      run_type run(tiny_recipe(), events);
      auto const result = run.go();
      CHECK_FALSE(result.finished);
      CHECK(result.steps.size() == 4);
      CHECK(train::stop_signal::number() == signal);
    }
    CHECK(std::signal(SIGINT, int_before) == &mark);
    CHECK(std::signal(SIGTERM, term_before) == &mark_too);
  }
  train::stop_signal const next;  // the signal of another run is forgotten
  CHECK_FALSE(train::stop_signal::stop_wanted());
}

TEST_CASE("no thread that computes takes a signal that stops a run", "[train][stop]") {
  CHECK((takes(SIGINT) && takes(SIGTERM) && takes(SIGHUP)));
  {
    train::stop_signal const stop;
    std::vector<std::thread> workers;
    std::vector<int> taken(3, -1);
    for (int& t : taken) workers.emplace_back([&t] { t = takes(SIGINT) + takes(SIGTERM) + takes(SIGHUP); });
    for (std::thread& w : workers) w.join();
    CHECK(taken == std::vector<int>(3, 0));
    CHECK_FALSE((takes(SIGINT) || takes(SIGTERM) || takes(SIGHUP)));
    CHECK(takes(SIGUSR1));
  }
  CHECK((takes(SIGINT) && takes(SIGTERM) && takes(SIGHUP)));
}

TEST_CASE("a second signal ends the process", "[train][stop]") {
  auto const ends = [](int signals) {
    return test::status_of_child([&] {
      std::signal(SIGINT, SIG_DFL);
      train::stop_signal const stop;
      send(SIGINT);
      if (signals == 1) return;
      ::kill(::getpid(), SIGINT);
      std::this_thread::sleep_for(std::chrono::seconds(10));  // it may come while the first is being taken
    });
  };
  CHECK((WIFEXITED(ends(1)) && WEXITSTATUS(ends(1)) == 0));
  int const twice = ends(2);
  CHECK((WIFSIGNALED(twice) && WTERMSIG(twice) == SIGINT));
}

TEST_CASE("a weight that is not finite stops the step that meets it and is named", "[train][stop]") {
  for (std::string const name : {"model.layers.0.mlp.down_proj.weight", "model.layers.0.input_layernorm.weight",
                                 "model.norm.weight", "lm_head.weight"}) {
    for (double const bad : {not_a_number, std::numeric_limits<double>::infinity()}) {
      run_type run(tiny_recipe());
      run.trainer.begin_phase(0);
      (void)run.trainer.update(0, 1, 1, 0.01);
      parameter_named(run, name).value.data()[3] = bad;
      auto const before = run.weights();
      auto const text = numeric_error_of([&] { (void)run.trainer.update(0, 2, 2, 0.01); });
      CAPTURE(name, bad, text);
      CHECK(test::one_line(text));
      CHECK(text.find("step 2: got a weight of " + name + " that is not finite") == 0);
      CHECK(same_bits(run.weights(), before));
    }
  }
}

TEST_CASE("a gradient that is not finite stops the step that meets it and is named", "[train][stop]") {
  // A head of the teacher's own: one bad number in it is in all teacher logits and so in every gradient, while
  // the student and its cross-entropy are sound.
  run_type run(tiny_recipe(), {}, test::tiny_options(), {.tied = false});
  run.trainer.begin_phase(0);
  auto const before = run.weights();
  const_cast<double*>(run.teacher.head()->data())[5] = not_a_number;
  auto const text = numeric_error_of([&] { (void)run.trainer.update(0, 7, 1, 0.01); });
  CAPTURE(text);
  CHECK(test::one_line(text));
  CHECK(text.find("step 7: got a gradient of model.") == 0);
  CHECK(text.find(".weight that is not finite") != std::string::npos);
  CHECK(same_bits(run.weights(), before));
}

TEST_CASE("teacher states that are not finite stop the step that meets them", "[train][stop]") {
  run_type run(tiny_recipe());
  run.trainer.begin_phase(0);
  (void)run.trainer.update(0, 1, 1, 0.01);
  run.teacher.final_norm().value.data()[0] = not_a_number;
  auto const before = run.weights();
  auto const text = numeric_error_of([&] { (void)run.trainer.update(0, 2, 2, 0.01); });
  CAPTURE(text);
  CHECK(test::one_line(text));
  CHECK(text.find("step 2: got ") == 0);
  CHECK(same_bits(run.weights(), before));
}

TEST_CASE("a batch without a single target is a legal step that moves nothing", "[train][stop][U04][U19]") {
  auto r = tiny_recipe();
  r.weight_decay = 0;
  run_type sound(r);
  data::corpus lonely;  // what data::open never makes: documents of one token
  for (std::int32_t token = 0; token < 12; ++token) {
    lonely.tokens.push_back(token);
    lonely.offsets.push_back(lonely.num_tokens());
    lonely.origins.push_back(token);
  }
  auto data = sound.data;
  data.training = &lonely;
  data.shard = {3, 1, 4, 0, 5};
  train::trainer<reference::backend<double>> trainer(sound.student, sound.teacher, data, r);
  trainer.begin_phase(0);
  auto const before = sound.weights();
  auto const record = trainer.update(0, 1, 1, 0.01);
  CHECK((record.tokens == 5 && record.targets == 0));
  CHECK((record.loss == 0 && record.kd == 0 && record.ce == 0));
  CHECK((record.gradient_norm == 0 && record.clip_scale == 1));
  CHECK(same_bits(sound.weights(), before));
}

TEST_CASE("an evaluation that is not finite is an error, not a line of a table", "[train][stop]") {
  run_type run(tiny_recipe());
  run.trainer.begin_phase(0);
  parameter_named(run, "model.norm.weight").value.data()[0] = not_a_number;
  auto const text = numeric_error_of([&] { (void)run.trainer.evaluate(0, 5, true); });
  CHECK(test::one_line(text));
  CHECK(text.find("evaluation after step 5: got a weight of model.norm.weight that is not finite") == 0);
}

TEST_CASE("a run whose documents do not fit is refused before its first step", "[train][stop]") {
  auto r = tiny_recipe();
  r.micro_tokens = 5;  // documents have up to 9
  auto const text = test::error_of([&] { run_type run(r); });
  CAPTURE(text);
  CHECK(test::one_line(text));
  CHECK(text.find("trainer: got training document ") == 0);
  CHECK(text.find(" tokens, expected at most 5, what is in memory at once") != std::string::npos);

  // Only the held-out documents are too long: hours would pass before the first evaluation says so.
  run_type sound(tiny_recipe());
  auto short_shard = sound.data.shard;
  std::erase_if(short_shard, [&](index_t d) { return sound.data.training->length(d) > 5; });
  auto data = sound.data;
  data.shard = short_shard;
  r.micro_tokens = 6;
  auto const held_out = test::error_of([&] {
    train::trainer<reference::backend<double>> t(sound.student, sound.teacher, data, r);
  });
  CAPTURE(held_out);
  CHECK(held_out.find("trainer: got validation document ") == 0);
}

TEST_CASE("a text too small for the steps is refused before the teacher is asked", "[train][stop]") {
  auto const text = test::error_of([] { run_type run(tiny_recipe(500)); });
  CAPTURE(text);
  CHECK(test::one_line(text));
  CHECK(text.find("data::shard_for: got text for ") == 0);
  auto options = test::tiny_options();
  options.validation_documents = 500;
  CHECK(test::one_line(test::error_of([&] { run_type run(tiny_recipe(), {}, options); })));
  auto bad = tiny_recipe();
  bad.batch_tokens = 0;
  CHECK(test::error_of([&] { run_type run(bad); }).find("recipe.batch_tokens: ") == 0);
}

TEST_CASE("a teacher's cache that cannot be written is refused in one line", "[train][stop]") {
  test::temporary_folder folder;
  test::write_file(folder / "file", "not a folder");
  auto const text =
      test::error_of([&] { run_type run(tiny_recipe(), {}, test::tiny_options(folder / "file")); });
  CAPTURE(text);
  CHECK(test::one_line(text));
  CHECK(folder.entries() == 1);
}
