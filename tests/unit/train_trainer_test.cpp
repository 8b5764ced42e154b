#include "accrete/train/trainer.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "accrete/growth/curriculum.hpp"
#include "accrete/growth/freeze.hpp"
#include "accrete/growth/joint.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/tiny_run.hpp"

using namespace accrete;
using test::relative;
using test::same_bits;
using test::tiny_recipe;
using test::tiny_run;

namespace {

using curriculum = growth::curriculum<3, 1>;
using joint = growth::joint<2, 1>;
template <class P>
using some_run = tiny_run<P, curriculum>;
using three_placements = std::tuple<placement::pre, placement::post, placement::residual>;

struct outcome {
  train::run_result result;
  test::snapshot weights;
};
template <class P>
outcome run_of(recipe const& r, train::run_events events = {},
               train::text_options const& options = test::tiny_options()) {
  some_run<P> run(r, std::move(events), options);
  auto result = run.go();
  return {std::move(result), run.weights()};
}

double worst(std::vector<train::step_record> const& a, std::vector<train::step_record> const& b) {
  REQUIRE(a.size() == b.size());
  double w = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    REQUIRE((a[i].tokens == b[i].tokens && a[i].targets == b[i].targets));
    w = std::max({w, relative(a[i].kd, b[i].kd), relative(a[i].ce, b[i].ce), relative(a[i].loss, b[i].loss),
                  relative(a[i].gradient_norm, b[i].gradient_norm)});
  }
  return w;
}
double worst(std::vector<train::evaluation_record> const& a, std::vector<train::evaluation_record> const& b) {
  REQUIRE(a.size() == b.size());
  double w = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    REQUIRE((a[i].step == b[i].step && a[i].targets == b[i].targets));
    w = std::max({w, relative(a[i].kd, b[i].kd), relative(a[i].ce, b[i].ce)});
  }
  return w;
}

}  // namespace

TEST_CASE("an update logs what the batch's losses and gradients are", "[train][trainer][U15]") {
  auto r = tiny_recipe();
  r.alpha = 0.6;
  r.gamma = 0.15;
  some_run<placement::post> run(r);
  auto documents = run.documents();
  data::ragged_batch batch;
  run.trainer.begin_phase(0);
  for (index_t step = 1; step <= 3; ++step) {
    documents.next_batch(batch, r.batch_tokens);
    test::zero_gradients(run.student);
    auto const sums = test::sums_by_hand(run, batch, true);
    double const norm = train::gradient_norm(run.student, step);
    auto const record = run.trainer.update(0, step, step, 0.01);
    CHECK(record.tokens == batch.num_tokens());
    CHECK(record.targets == batch.num_targets);
    CHECK(relative(record.kd, sums.kd / double(batch.num_targets)) < 1e-12);
    CHECK(relative(record.ce, sums.ce / double(batch.num_targets)) < 1e-12);
    CHECK(relative(record.loss, 0.6 * record.kd + 0.15 * record.ce) < 1e-14);
    CHECK(relative(record.gradient_norm, norm) < 1e-12);
    CHECK(record.clip_scale == std::min(1.0, r.max_gradient_norm / record.gradient_norm));
    CHECK((record.learning_rate == 0.01 && record.active_layers == 1 && record.step == step));
    CHECK(record.seconds > 0);
  }
}

TEMPLATE_LIST_TEST_CASE("a run does not depend on how its batches are cut into pieces",
                        "[train][trainer][U14][U22][U28][U50][U51]", three_placements) {
  auto r = tiny_recipe();
  r.evaluate_every = 2;
  auto const whole = run_of<TestType>(r);
  REQUIRE(whole.result.steps.size() == 9);
  // The clip bites, so that clipping each piece would show; batches hold several documents.
  CHECK(whole.result.steps[1].clip_scale < 0.9);
  for (index_t const micro : {9, 10, 13, 17, 23, 24, 1000}) {
    r.micro_tokens = micro;
    auto const cut = run_of<TestType>(r);
    CAPTURE(micro);
    CHECK(worst(cut.result.steps, whole.result.steps) < 1e-12);
    CHECK(worst(cut.result.evaluations, whole.result.evaluations) < 1e-12);
    CHECK(test::worst_difference(cut.weights, whole.weights) < 1e-12);
    for (std::size_t i = 0; i < 9; ++i)
      CHECK(cut.result.steps[i].learning_rate == whole.result.steps[i].learning_rate);
  }
}

TEST_CASE("a run does not depend on how many logits exist at once", "[train][trainer]") {
  auto r = tiny_recipe();
  auto const few = run_of<placement::pre>(r);
  for (std::size_t const bytes : {std::size_t(0), std::size_t(2000), std::size_t(1) << 20}) {
    r.logits_bytes = bytes;
    auto const other = run_of<placement::pre>(r);
    CHECK(worst(other.result.steps, few.result.steps) < 1e-12);
    CHECK(test::worst_difference(other.weights, few.weights) < 1e-12);
  }
}

TEMPLATE_LIST_TEST_CASE("watching a run changes no bit of it", "[train][trainer]", three_placements) {
  auto r = tiny_recipe();
  auto const quiet = run_of<TestType>(r);
  int steps = 0, evaluations = 0, notes = 0, asked = 0;
  train::run_events events;
  events.on_step = [&](train::step_record const&) { ++steps; };
  events.on_evaluation = [&](train::evaluation_record const&) { ++evaluations; };
  events.on_note = [&](std::string const& text) {
    ++notes;
    CHECK(test::one_line(text));
  };
  events.stop_wanted = [&] {
    ++asked;
    return false;
  };
  r.evaluate_every = 1;
  auto const watched = run_of<TestType>(r, events);
  CHECK((steps == 9 && evaluations == 9 && notes >= 3 && asked >= 8));
  CHECK(watched.result.evaluations.size() == 9);
  CHECK(quiet.result.evaluations.size() == 3);
  CHECK(test::same_records(watched.result.steps, quiet.result.steps));
  CHECK(same_bits(watched.weights, quiet.weights));
  CHECK((quiet.result.finished && watched.result.finished));
}

TEST_CASE("an evaluation is a mean over the targets of all held-out documents, each on its own",
          "[train][trainer][U24]") {
  auto const r = tiny_recipe();
  some_run<placement::pre> run(r);
  run.trainer.begin_phase(0);
  (void)run.trainer.update(0, 1, 1, 0.01);
  auto const& held_out = run.prepared.split().validation;
  REQUIRE(held_out.num_documents() == 12);
  distillation::loss_sums sums;
  for (index_t d = 0; d < held_out.num_documents(); ++d) {
    data::ragged_batch one;
    one.append(held_out.document(d));
    sums += test::sums_by_hand(run, one);
  }
  auto const before = run.weights();
  auto const e = run.trainer.evaluate(0, 1, true);
  CHECK(e.targets == held_out.num_tokens() - 12);
  CHECK(relative(e.kd, sums.kd / double(e.targets)) < 1e-12);
  CHECK(relative(e.ce, sums.ce / double(e.targets)) < 1e-12);
  CHECK((e.step == 1 && e.end_of_phase && e.active_layers == 1));
  CHECK(same_bits(run.weights(), before));
}

TEST_CASE("sums over batches make the mean over tokens, not over batches", "[train][trainer][U22][U24]") {
  distillation::loss_sums sums{0, 8, 4};
  sums += {0, 7, 1};
  CHECK(std::abs(sums.mean_ce() - 3.0) < 1e-15);
  CHECK(std::abs(std::exp(sums.mean_ce()) - 20.0855) < 1e-4);
  distillation::loss_sums kd{50, 0, 100};
  kd += {270, 0, 900};
  CHECK(std::abs(kd.mean_kd() - 0.32) < 1e-15);
  CHECK(distillation::loss_sums{}.mean_ce() == 0);
}

TEST_CASE("two runs of one seed are the same to the last bit, and of two seeds are not", "[train][trainer]") {
  auto r = tiny_recipe();
  auto const first = run_of<placement::mix>(r), second = run_of<placement::mix>(r);
  CHECK(same_bits(first.weights, second.weights));
  CHECK(test::same_records(first.result.steps, second.result.steps));
  CHECK(first.result.student == "mix, grow");
  r.seed = seed{43};
  auto const other = run_of<placement::mix>(r);
  CHECK_FALSE(same_bits(other.weights, first.weights));
  CHECK(relative(other.result.steps[0].ce, first.result.steps[0].ce) > 1e-6);
}

TEST_CASE("a run from the teacher's cache is the run beside the teacher", "[train][trainer]") {
  auto r = tiny_recipe();
  r.micro_tokens = 13;
  auto const live = run_of<placement::peri>(r);
  test::temporary_folder folder;
  for (bool const reused : {false, true}) {
    some_run<placement::peri> run(r, {}, test::tiny_options(folder / "cache"));
    CHECK(run.prepared.teacher_reused() == reused);
    auto const result = run.go();
    CHECK(worst(result.steps, live.result.steps) < 1e-12);
    CHECK(worst(result.evaluations, live.result.evaluations) < 1e-12);
    CHECK(test::worst_difference(run.weights(), live.weights) < 1e-12);
  }
}

TEST_CASE("a trainer leaves the teacher alone and gives it nothing to train with", "[train][trainer][U18]") {
  some_run<placement::pre> run(tiny_recipe());
  auto const before = test::values_of(run.teacher.stack());
  auto const head = test::named("head", run.teacher.head()->view());
  (void)run.go();
  CHECK(same_bits(test::values_of(run.teacher.stack()), before));
  CHECK(same_bits(test::named("head", run.teacher.head()->view()).numbers, head.numbers));
  CHECK(test::gradients_of(run.teacher.stack()).empty());
}

TEMPLATE_LIST_TEST_CASE("thirty updates over three phases teach a student of every placement",
                        "[train][trainer]", test::placements) {
  auto r = tiny_recipe(10);
  r.weight_decay = 0;
  some_run<TestType> run(r);
  auto const result = run.go();
  REQUIRE(result.steps.size() == 30);
  auto const mean = [&](std::size_t first) {
    double sum = 0;
    for (std::size_t i = first; i < first + 5; ++i) sum += result.steps[i].loss;
    return sum / 5;
  };
  CAPTURE(result.student, mean(0), mean(25));
  CHECK(mean(25) < 0.8 * mean(0));
  // On text it has never seen, too: what it has learned of the teacher.
  CAPTURE(result.evaluations[0].kd, result.evaluations[2].kd);
  CHECK(result.evaluations[2].kd < result.evaluations[0].kd);
}

TEST_CASE("a step's useful operations are those of its matrices, attention and heads", "[train][trainer]") {
  auto r = tiny_recipe();
  some_run<placement::pre> run(r);
  auto const& c = run.teacher.config();
  run.trainer.begin_phase(0);
  auto const documents = [&] {
    data::ragged_batch b;
    auto walk = run.documents();
    walk.next_batch(b, r.batch_tokens);
    return b;
  }();
  auto const record = run.trainer.update(0, 1, 1, 0.01);
  double const length = double(documents.num_tokens()) / double(documents.num_documents());
  double const matrices = 12.0 * (12 + 4 + 4) + 12 * 12 + 3 * 12 * 10;  // q|k|v, o, gate|up and down
  double const layer = matrices + 12 * length;
  double const head = 12.0 * double(c.vocab_size);
  // One trained layer of the student, two of the teacher; three head products and the teacher's one.
  double const per_token = 2 * (3 * layer + 2 * layer + 4 * head);
  CHECK(relative(record.operations, per_token * double(record.tokens)) < 1e-12);
}

TEST_CASE("a step that trains one block of two does less work below it", "[train][trainer]") {
  // Under post-norm the entry's norm trains too: the frozen block passes a gradient on, and has none of its
  // own.
  tiny_run<placement::post, growth::freeze<2, 1>> frozen(tiny_recipe());
  tiny_run<placement::post, growth::curriculum<2, 1>> all(tiny_recipe());
  tiny_run<placement::pre, growth::freeze<2, 1>> apart(tiny_recipe());  // nothing trains below the new block
  auto const a = frozen.go().steps.back(), b = all.go().steps.back(), c = apart.go().steps.back();
  REQUIRE((a.tokens == b.tokens && a.tokens == c.tokens));
  double const less = b.operations - a.operations;
  CHECK(less > 0);
  CHECK(relative(b.operations - c.operations, 2 * less) < 1e-12);  // both products of the backward are spared
}

TEST_CASE("a run starts from a fresh student", "[train][trainer]") {
  some_run<placement::pre> run(tiny_recipe());
  (void)run.go();
  auto const text = test::error_of([&] { (void)run.go(); });
  CHECK(test::one_line(text));
  CHECK(text.find("trainer: got a student that has been trained already") == 0);
}
