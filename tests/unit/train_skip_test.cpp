#include <cmath>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "accrete/growth/curriculum.hpp"
#include "accrete/train/log_lines.hpp"
#include "accrete/train/trainer.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/tiny_run.hpp"

using namespace accrete;
using test::same_bits;
using test::tiny_recipe;

namespace {

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

/// A run whose teacher says something that is no number at some of its updates, as a damaged file would.
struct shaken_run {
  std::vector<index_t> bad;  ///< updates
  std::vector<std::string> notes;
  std::function<void(index_t step)> before_update = [](index_t) {};
  index_t went_on_after = 0;
  test::tiny_run<placement::post, growth::curriculum<3, 1>> run;

  shaken_run(recipe const& r, std::vector<index_t> at, train::checkpoint_options const& keep = {})
      : bad(std::move(at)), run(r, events(), test::tiny_options(), {.tied = false}, keep) {
    set_up(1);
  }
  train::run_result go() { return run.go(); }

 private:
  train::run_events events() {
    train::run_events e;
    e.on_step = [this](train::step_record const& s) { set_up(s.step + 1); };
    e.on_note = [this](std::string const& text) { notes.push_back(text); };
    e.on_resume = [this](train::run_state const& s, std::filesystem::path const&) {
      went_on_after = s.step();
      set_up(s.step() + 1);
    };
    return e;
  }
  // The teacher's head is its own here, so that the student and its cross-entropy are sound.
  void set_up(index_t step) {
    before_update(step);
    bool shaken = false;
    for (index_t b : bad) shaken = shaken || b == step;
    auto& number = const_cast<double*>(run.teacher.head()->data())[5];
    if (!std::isnan(number)) sound_ = number;
    number = shaken ? not_a_number : sound_;
  }
  double sound_ = 0;
};

template <class Call>
std::string numeric_error_of(Call&& call) {
  try {
    call();
  } catch (numeric_error const& e) {
    return e.what();
  }
  return {};
}
train::checkpoint_options kept_in(std::filesystem::path folder) {
  train::checkpoint_options keep;
  keep.folder = std::move(folder);
  keep.every_minutes = 0;
  return keep;
}

}  // namespace

TEST_CASE("an update whose gradient is not finite may be passed over and leaves no trace but in the log",
          "[train][skip]") {
  auto r = tiny_recipe(4);
  r.skip_nonfinite = 2;
  shaken_run run(r, {3, 7});
  test::snapshot before;
  run.before_update = [&](index_t step) {
    if (step == 3 || step == 7) before = test::training_state_of(run.run.student);
    if (step == 4 || step == 8) CHECK(same_bits(test::training_state_of(run.run.student), before));
  };
  auto const result = run.go();
  CHECK(result.finished);
  CHECK(result.skipped == 2);
  REQUIRE(result.steps.size() == 12);
  index_t tokens = 0;
  for (auto const& s : result.steps) {
    bool const skipped = s.step == 3 || s.step == 7;
    CAPTURE(s.step);
    CHECK(s.skipped == skipped);
    CHECK(std::isfinite(s.gradient_norm) == !skipped);
    CHECK(train::to_json(s).contains("skipped") == skipped);
    if (!skipped) tokens += s.tokens;
  }
  CHECK(result.evaluations.back().tokens.total == tokens);
  CAPTURE(train::to_json(result.steps[2]).dump());
  CHECK(nlohmann::json::parse(train::to_json(result.steps[2]).dump()).at("gradient_norm").is_null());
  // Adam counts since the last phase began, in which none was skipped.
  run.run.student.parameters([&](auto& p) { CHECK(p.updates == 4); });
  std::size_t told = 0;
  for (auto const& n : run.notes) {
    CHECK(test::one_line(n));
    if (n.find("skipped") == std::string::npos) continue;
    ++told;
    CHECK(n.starts_with(told == 1 ? "step 3: got a gradient of model.entry_norm.weight "
                                  : "step 7: got a gradient of model."));
    CHECK(n.ends_with(told == 1 ? "; skipped, 1 of 2" : "; skipped, 2 of 2"));
  }
  CHECK(told == 2);
}

TEST_CASE("a skipped update counts for the plan and the text, and not for Adam", "[train][skip]") {
  auto r = tiny_recipe(4);
  r.skip_nonfinite = 1;
  shaken_run run(r, {10});
  shaken_run straight(r, {});
  auto const shaken = run.go(), whole = straight.go();
  run.run.student.parameters([&](auto& p) { CHECK(p.updates == 3); });
  for (std::size_t i = 0; i < 12; ++i) {
    CHECK(shaken.steps[i].learning_rate == whole.steps[i].learning_rate);
    CHECK(shaken.steps[i].tokens == whole.steps[i].tokens);
    if (i < 9) CHECK(test::same_record(shaken.steps[i], whole.steps[i]));
  }
  CHECK(shaken.steps[10].loss != whole.steps[10].loss);
  CHECK(shaken.evaluations.back().tokens.total ==
        whole.evaluations.back().tokens.total - whole.steps[9].tokens);
}

TEST_CASE("a run stops when it has skipped as many as it may, and names what was not finite", "[train][skip]") {
  auto r = tiny_recipe(4);
  auto const none = numeric_error_of([&] { (void)shaken_run(r, {3}).go(); });
  CHECK(none.starts_with("step 3: got a gradient of model.entry_norm.weight "));
  CHECK(none.find("skipped") == std::string::npos);
  r.skip_nonfinite = 2;
  shaken_run run(r, {2, 5, 6});
  auto const text = numeric_error_of([&] { (void)run.go(); });
  CAPTURE(text);
  CHECK(test::one_line(text));
  CHECK(text.starts_with("step 6: got a gradient of model."));
  CHECK(text.ends_with(", after 2 that were skipped"));
  CHECK(numeric_error_of([&] { (void)shaken_run(r, {2, 5}).go(); }).empty());
  r.skip_nonfinite = -1;
  CHECK(test::error_of([&] { r.check(); }) == "recipe.skip_nonfinite: got -1, expected 0 or more");
}

TEST_CASE("a weight that is not finite is never passed over", "[train][skip]") {
  auto r = tiny_recipe(4);
  r.skip_nonfinite = 100;
  shaken_run run(r, {});
  run.before_update = [&](index_t step) {
    if (step == 6) run.run.student.head().value.data()[3] = not_a_number;
  };
  auto const text = numeric_error_of([&] { (void)run.go(); });
  CHECK(text.starts_with("step 6: got a weight of lm_head.weight that is not finite"));
}

TEST_CASE("the last good checkpoint stays, and going on may skip", "[train][skip][resume]") {
  auto r = tiny_recipe(4);
  test::temporary_folder const folder;
  auto const keep = kept_in(folder / "run");
  auto const text = numeric_error_of([&] { (void)shaken_run(r, {7}, keep).go(); });
  CHECK(text.starts_with("step 7: got a gradient of "));
  CHECK(train::checkpoint_file(folder / "run" / "step-00000006.safetensors").state().step() == 6);
  // The same again: the same text, the same teacher.
  CHECK(numeric_error_of([&] { (void)shaken_run(r, {7}, keep).go(); }) == text);
  r.skip_nonfinite = 1;
  shaken_run rest(r, {7}, keep);
  auto const result = rest.go();
  CHECK(rest.went_on_after == 6);
  CHECK((result.finished && result.skipped == 1));
  shaken_run straight(r, {7});
  CHECK(straight.go().evaluations.back().ce == result.evaluations.back().ce);
  CHECK(same_bits(test::training_state_of(rest.run.student), test::training_state_of(straight.run.student)));

  // What was skipped before counts after a resume too.
  test::temporary_folder const other;
  auto const again = kept_in(other / "run");
  CHECK_FALSE(numeric_error_of([&] { (void)shaken_run(r, {3, 9}, again).go(); }).empty());
  CHECK(
      numeric_error_of([&] { (void)shaken_run(r, {9}, again).go(); }).ends_with(", after 1 that were skipped"));
  r.skip_nonfinite = 2;
  CHECK(shaken_run(r, {9}, again).go().skipped == 2);
}
