#include <cstddef>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "accrete/growth/curriculum.hpp"
#include "accrete/growth/freeze.hpp"
#include "accrete/growth/joint.hpp"
#include "accrete/train/distill.hpp"
#include "accrete/train/load_student.hpp"
#include "accrete/train/trainer.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/tiny_run.hpp"

using namespace accrete;
using test::own_schedule;
using test::same_bits;
using test::tiny_recipe;
using test::tiny_run;

namespace {

using placement::post;
using placement::pre;

/// Checkpoints on leaving and at the end alone.
train::checkpoint_options kept_in(std::filesystem::path folder) {
  train::checkpoint_options keep;
  keep.folder = std::move(folder);
  keep.every_minutes = 0;
  return keep;
}

/// All a run leaves behind, and what it told.
struct outcome {
  train::run_result result;
  test::snapshot state;
  data::order_state order;
  std::vector<std::string> notes;
  std::vector<index_t> steps, evaluations;  // as they were told
  index_t went_on_after = -1;
};

/// One attempt in a process' life of its own: everything is built anew. Left after update `last`, if that is
/// not 0.
template <class P, class S>
outcome attempt(recipe const& r, train::checkpoint_options const& keep, index_t last = 0,
                std::filesystem::path const& cache = {}) {
  outcome out;
  train::run_events events;
  events.on_step = [&](train::step_record const& s) { out.steps.push_back(s.step); };
  events.on_evaluation = [&](train::evaluation_record const& e) { out.evaluations.push_back(e.step); };
  events.on_note = [&](std::string const& text) { out.notes.push_back(text); };
  events.on_resume = [&](train::run_state const& s, std::filesystem::path const&) {
    out.went_on_after = s.step();
  };
  events.stop_wanted = [&] { return !out.steps.empty() && out.steps.back() == last; };
  tiny_run<P, S> run(r, events, test::tiny_options(cache), {.qk_norm = true, .qkv_bias = true}, keep);
  out.result = run.go();
  out.state = test::training_state_of(run.student);
  out.order = run.trainer.order_state();
  return out;
}
bool same(outcome const& a, outcome const& b) {
  return test::same_result(a.result, b.result) && same_bits(a.state, b.state) && a.order == b.order;
}

/// Leaves the run after each of its updates in turn, goes on with new objects, and finds the run that was never
/// left.
template <class P, class S>
void check_every_update(recipe const& r, bool cached = false) {
  test::temporary_folder folder;
  auto const cache = cached ? folder / "cache" : std::filesystem::path();
  auto const whole = attempt<P, S>(r, {}, 0, cache);
  REQUIRE(whole.result.finished);
  auto const total = index_t(whole.result.steps.size());
  for (index_t last = 1; last <= total; ++last) {
    CAPTURE(whole.result.student, last);
    auto const keep = kept_in(folder / ("after-" + std::to_string(last)));
    auto const left = attempt<P, S>(r, keep, last, cache);
    CHECK_FALSE(left.result.finished);
    CHECK(index_t(left.result.steps.size()) == last);
    CHECK((left.evaluations.empty() || left.evaluations.back() < last));  // it left in time
    auto const rest = attempt<P, S>(r, keep, 0, cache);
    CHECK(rest.went_on_after == last);
    CHECK(index_t(rest.steps.size()) == total - last);
    CHECK(left.evaluations.size() + rest.evaluations.size() == whole.evaluations.size());
    CHECK(same(rest, whole));
  }
}

template <class Call>
std::string refusal_of(Call&& call) {
  try {
    call();
  } catch (config_error const& e) {
    return e.what();
  }
  return {};
}

}  // namespace

TEST_CASE("a run that is left after any update goes on to the bits of one that never was",
          "[train][resume][U53][U55]") {
  auto r = tiny_recipe();
  r.evaluate_every = 2;
  check_every_update<post, growth::curriculum<3, 1>>(r);
  check_every_update<pre, growth::freeze<3, 1>>(r);
  check_every_update<placement::residual, growth::freeze<3, 1>::strict>(r);
  check_every_update<pre, growth::joint<2, 1>::restarted<2>>(r);
  r.steps = 4;
  check_every_update<placement::mix, own_schedule>(r);
}

TEST_CASE("a resumed run is the same with gradients that add up and with the teacher's cache",
          "[train][resume]") {
  auto r = tiny_recipe();
  r.evaluate_every = 2;
  r.micro_tokens = 10;
  check_every_update<post, growth::curriculum<3, 1>>(r);
  check_every_update<post, growth::curriculum<3, 1>>(r, true);
}

TEST_CASE("a run may be left and go on as often as it likes", "[train][resume]") {
  auto r = tiny_recipe();
  r.evaluate_every = 1;
  test::temporary_folder folder;
  auto const keep = kept_in(folder / "run");
  auto const whole = attempt<post, growth::curriculum<3, 1>>(r, {});
  for (index_t last = 1; last <= 9; ++last) {
    auto const left = attempt<post, growth::curriculum<3, 1>>(r, keep, last);
    CHECK(left.steps == std::vector<index_t>{last});
    CHECK(left.evaluations.size() == (last == 1 ? 0 : 1));  // the one it left without
  }
  auto const rest = attempt<post, growth::curriculum<3, 1>>(r, keep);
  CHECK(rest.steps.empty());
  CHECK(same(rest, whole));
  // What is finished stays finished, and is evaluated again: the checkpoint is from before.
  auto const again = attempt<post, growth::curriculum<3, 1>>(r, keep);
  CHECK(again.steps.empty());
  CHECK(same(again, whole));
}

TEST_CASE("checkpoints that nobody needs change no bit of a run", "[train][resume]") {
  auto r = tiny_recipe();
  r.evaluate_every = 2;
  test::temporary_folder folder;
  auto keep = kept_in(folder / "run");
  keep.every_steps = 1;
  CHECK(same(attempt<post, own_schedule>(r, keep), attempt<post, own_schedule>(r, {})));
}

TEST_CASE("a run that dies of an error has kept where it stood", "[train][resume][U57]") {
  using run_type = tiny_run<post, growth::curriculum<3, 1>>;
  auto r = tiny_recipe();
  r.evaluate_every = 2;
  auto const whole = attempt<post, growth::curriculum<3, 1>>(r, {});
  for (std::string const from : {"step 5", "evaluation 6", "evaluation 9", "note", "stop"}) {
    test::temporary_folder folder;
    auto const keep = kept_in(folder / "run");
    index_t last = 0;
    train::run_events events;
    auto const fail = [&](std::string const& at) {
      if (at == from) throw std::runtime_error("the " + from + " hook has failed");
    };
    events.on_step = [&](train::step_record const& s) {
      last = s.step;
      fail("step " + std::to_string(s.step));
    };
    events.on_evaluation = [&](train::evaluation_record const& e) {
      fail("evaluation " + std::to_string(e.step));
    };
    events.on_note = [&](std::string const& text) {
      if (text.starts_with("phase 2")) fail("note");
    };
    events.stop_wanted = [&] {
      if (last == 4) fail("stop");
      return false;
    };
    std::string what;
    try {
      run_type run(r, events, test::tiny_options(), {.qk_norm = true, .qkv_bias = true}, keep);
      (void)run.go();
    } catch (std::runtime_error const& e) {
      what = e.what();
    }
    CAPTURE(from, last);
    CHECK(what == "the " + from + " hook has failed");
    auto const rest = attempt<post, growth::curriculum<3, 1>>(r, keep);
    CHECK(rest.went_on_after == last);  // not one update is lost
    CHECK(same(rest, whole));
  }
}

TEST_CASE("one call distils, is left, and goes on", "[train][resume][distill]") {
  auto const r = tiny_recipe();
  test::temporary_folder folder;
  auto const call = [&](train::checkpoint_options const& keep, index_t last) {
    auto t = test::tiny_teacher<reference::backend<double>>();
    student<post, growth::curriculum<3, 1>, reference::backend<double>> s(t, r.seed);
    index_t done = 0;
    train::run_events events;
    events.on_step = [&](train::step_record const& step) { done = step.step; };
    events.stop_wanted = [&] { return done == last; };
    return distill(s, t, test::tiny_corpus(), r, test::tiny_options(), events, keep);
  };
  auto const whole = call({}, 0);
  auto const keep = kept_in(folder / "run");
  CHECK_FALSE(call(keep, 5).finished);
  auto const rest = call(keep, 0);
  CHECK(test::same_result(rest, whole));
  CHECK(rest.seconds > rest.steps.back().seconds);  // of both attempts
}

TEST_CASE("going on with another run is refused and the difference named", "[train][resume]") {
  auto const r = tiny_recipe();
  test::temporary_folder folder;
  auto const keep = kept_in(folder / "run");
  (void)attempt<post, growth::curriculum<3, 1>>(r, keep, 4);
  auto const path = (folder / "run" / "step-00000004.safetensors").string();
  auto const refused = [&](std::string const& text, std::string const& difference) {
    CAPTURE(text, difference);
    CHECK(test::one_line(text));
    CHECK(text.starts_with("checkpoint '" + path + "': got "));
    CHECK(text.find(difference) != std::string::npos);
    CHECK(text.find("as it began") != std::string::npos);
  };
  using grow = growth::curriculum<3, 1>;
  refused(refusal_of([&] { (void)attempt<pre, grow>(r, keep); }), "student 'pre, grow', placement ");
  refused(refusal_of([&] { (void)attempt<post, growth::freeze<3, 1>>(r, keep); }), "schedule ");
  refused(refusal_of([&] {
            tiny_run<post, grow> run(r, {}, test::tiny_options(),
                                     {.qk_norm = true, .weights = seed{12}, .qkv_bias = true}, keep);
            (void)run.go();
          }),
          "teacher 'tiny12qwen3tb', expected 'tiny11qwen3tb'");
  refused(refusal_of([&] {
            tiny_run<post, grow> run(r, {}, test::tiny_options(), {}, keep);
            (void)run.go();
          }),
          "layer 'head norms 0 0 0, ");
  refused(refusal_of([&] {
            auto options = test::tiny_options();
            options.validation_documents = 13;
            tiny_run<post, grow> run(r, {}, options, {.qk_norm = true, .qkv_bias = true}, keep);
            (void)run.go();
          }),
          "validation_text ");

  struct change {
    char const* key;
    void (*make)(recipe&);
    bool may_be_allowed;
  };
  std::vector<change> const changes{
      {"seed", [](recipe& q) { q.seed = seed{43}; }, false},
      {"steps", [](recipe& q) { q.steps = 4; }, false},
      {"batch_tokens", [](recipe& q) { q.batch_tokens = 25; }, false},
      {"peak_learning_rate", [](recipe& q) { q.peak_learning_rate *= 1 + 1e-15; }, true},
      {"min_learning_rate", [](recipe& q) { q.min_learning_rate = 0; }, true},
      {"warmup", [](recipe& q) { q.warmup = 0.5; }, true},
      {"beta1", [](recipe& q) { q.beta1 = 0.8; }, true},
      {"beta2", [](recipe& q) { q.beta2 = 0.999; }, true},
      {"epsilon", [](recipe& q) { q.epsilon = 1e-9; }, true},
      {"weight_decay", [](recipe& q) { q.weight_decay = 0; }, true},
      {"max_gradient_norm", [](recipe& q) { q.max_gradient_norm = 1; }, true},
      {"temperature", [](recipe& q) { q.temperature = 2; }, true},
      {"alpha", [](recipe& q) { q.alpha = 1; }, true},
      {"gamma", [](recipe& q) { q.gamma = 1; }, true},
      {"evaluate_every", [](recipe& q) { q.evaluate_every = 1; }, true},
      {"micro_tokens", [](recipe& q) { q.micro_tokens = 10; }, true},
      {"logits_bytes", [](recipe& q) { q.logits_bytes = 2000; }, true}};
  for (auto const& one : changes) {
    std::string const key = one.key;
    bool const may_be_allowed = one.may_be_allowed;
    auto other = r;
    one.make(other);
    auto const text = refusal_of([&] { (void)attempt<post, grow>(other, keep); });
    refused(text, key + " '");
    CHECK((text.find("allow may name " + key) != std::string::npos) == may_be_allowed);
    auto allowing = keep;
    allowing.allow = {key};
    auto const word = refusal_of([&] {
      auto const rest = attempt<post, grow>(other, allowing, 5);  // leaves the same checkpoint for the next one
      CHECK(rest.went_on_after == 4);
      CHECK(rest.notes.front().find("with " + key + " '") != std::string::npos);
      std::filesystem::remove(folder / "run" / "step-00000005.safetensors");
    });
    CHECK(word.empty() == may_be_allowed);
    if (!may_be_allowed) CHECK(word.find("allow: got '" + key + "', expected some of student, ") == 0);
  }
  auto allowing = keep;
  allowing.allow = {"lr"};
  CHECK(refusal_of([&] {
          (void)attempt<post, grow>(r, allowing);
        }).find("allow: got 'lr', expected some of ") == 0);

  // Nothing of that has changed a byte of the run.
  CHECK(same(attempt<post, grow>(r, keep), attempt<post, grow>(r, {})));
}

TEST_CASE("what changes no number that was promised is noted on going on, and no more", "[train][resume]") {
  auto r = tiny_recipe();
  test::temporary_folder folder;
  auto const keep = kept_in(folder / "run");
  (void)attempt<post, growth::curriculum<3, 1>>(r, keep, 4);
  r.skip_nonfinite = 3;
  auto const rest = attempt<post, growth::curriculum<3, 1>>(r, keep, 0, folder / "cache");
  REQUIRE_FALSE(rest.notes.empty());
  CHECK(rest.notes.front().find(
            "with teacher_states 'cached' instead of 'live', skip_nonfinite '3' instead of '0'") !=
        std::string::npos);
}

TEST_CASE("a run says whether it must, may or must not go on", "[train][resume]") {
  auto const r = tiny_recipe();
  using grow = growth::curriculum<3, 1>;
  test::temporary_folder folder;
  auto keep = kept_in(folder / "run");
  keep.how = train::resume::required;
  auto const text = refusal_of([&] { (void)attempt<post, grow>(r, keep); });
  CAPTURE(text);
  CHECK(
      text.starts_with("checkpoints in '" + keep.folder.string() + "': got none, expected one to go on from"));
  keep.how = train::resume::automatic;
  CHECK(attempt<post, grow>(r, keep, 2).went_on_after == -1);
  keep.how = train::resume::required;
  CHECK(attempt<post, grow>(r, keep, 3).went_on_after == 2);
  keep.how = train::resume::fresh;
  CHECK(attempt<post, grow>(r, keep, 1).went_on_after == -1);
  keep.how = train::resume::automatic;
  CHECK(attempt<post, grow>(r, keep, 3).went_on_after == 1);  // what was there before is gone
}

TEST_CASE("a stop during an evaluation is not put off to its end", "[train][resume]") {
  auto r = tiny_recipe();
  r.evaluate_every = 2;
  using grow = growth::curriculum<3, 1>;
  auto const whole = attempt<post, grow>(r, {});
  test::temporary_folder const folder;
  auto const keep = kept_in(folder / "run");
  std::size_t asked_after_last = 0;
  index_t done = 0, evaluated = 0;
  train::run_events events;
  events.on_step = [&](train::step_record const& s) { done = s.step; };
  events.on_evaluation = [&](train::evaluation_record const& e) { evaluated = e.step; };
  events.stop_wanted = [&] { return done == 5 && ++asked_after_last == 3; };  // its second batch is due, then
  tiny_run<post, grow> run(r, events, test::tiny_options(), {.qk_norm = true, .qkv_bias = true}, keep);
  auto const left = run.go();
  CHECK_FALSE(left.finished);
  CHECK((left.steps.size() == 5 && evaluated == 3));
  auto const rest = [&] {
    auto const elsewhere = folder / "copy";  // the other run still has its folder
    std::filesystem::copy(keep.folder, elsewhere);
    return attempt<post, grow>(r, kept_in(elsewhere));
  }();
  CHECK(rest.went_on_after == 5);
  CHECK(rest.evaluations == std::vector<index_t>{5, 6, 8, 9});
  CHECK(same(rest, whole));
}

TEST_CASE("a checkpoint makes a student without a run", "[train][resume][U78]") {
  auto r = tiny_recipe();
  test::temporary_folder const folder;
  using backend_type = reference::backend<double>;
  auto const whole = attempt<post, growth::freeze<3, 1>>(r, kept_in(folder / "run"));
  auto const path = folder / "run" / "best.safetensors";
  auto t = test::tiny_teacher<backend_type>({.qk_norm = true, .qkv_bias = true});
  student<post, growth::freeze<3, 1>, backend_type> s(t, seed{7});  // whatever it was drawn from
  auto const state = train::load_student(s, t, path);
  CHECK((state.step() == 9 && s.active_layers() == 3));
  CHECK(same_bits(test::training_state_of(s), whole.state));

  CHECK(refusal_of([&] { (void)train::load_student(s, t, path); }).ends_with("already, expected a fresh one"));
  student<pre, growth::freeze<3, 1>, backend_type> other(t, seed{7});
  CHECK(refusal_of([&] { (void)train::load_student(other, t, path); }).find("got placement ") !=
        std::string::npos);
  auto second = test::tiny_teacher<backend_type>({.qk_norm = true, .weights = seed{12}, .qkv_bias = true});
  student<post, growth::freeze<3, 1>, backend_type> elsewhere(second, seed{7});
  CHECK(refusal_of([&] { (void)train::load_student(elsewhere, second, path); }).find("got teacher ") !=
        std::string::npos);
}
