#include <cmath>
#include <cstddef>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "accrete/cpu/backend.hpp"
#include "accrete/growth/curriculum.hpp"
#include "accrete/train/distill.hpp"
#include "accrete/train/trainer.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/sized_model.hpp"
#include "support/step_by_hand.hpp"
#include "support/tiny_run.hpp"
#include "support/watched_new.hpp"

using namespace accrete;

namespace {

using f32 = cpu::backend<float>;
using bf16 = cpu::backend<bfloat16>;
/// What a library takes for its own products is not ours to count.
using own = cpu::backend<float, cpu::eigen_gemm>;
using schedule = growth::curriculum<2, 1>;
/// Large enough that every operation shares its work among threads.
constexpr test::model_size size{96, 2, 6, 3, 16, 160, 1000};

recipe cpu_recipe() {
  recipe r;
  r.steps = 3;
  r.batch_tokens = 400;
  r.peak_learning_rate = 3e-3;
  r.min_learning_rate = 1e-4;
  r.logits_bytes = 1 << 20;
  return r;
}

/// A run and all it needs, on `threads` threads.
template <class Backend = f32>
struct cpu_run {
  recipe r = cpu_recipe();
  teacher<Backend> t;
  data::corpus text = test::sized_corpus(60, {100, 37, 64, 3, 151}, size.vocabulary);
  train::prepared_text<Backend> prepared;
  student<placement::pre, schedule, Backend> s;
  train::trainer<Backend> trainer;

  explicit cpu_run(int threads, recipe const& with = cpu_recipe(), std::filesystem::path const& cache = {},
                   train::run_events events = {}, train::checkpoint_options keep = {})
      : r(with),
        t(test::sized_teacher(size, Backend(threads))),
        prepared(t, text, r, r.steps, {.cache_folder = cache, .validation_documents = 6}),
        s(t, r.seed),
        trainer(s, t, prepared.for_updates(r.steps, r.seed), r, std::move(events), std::move(keep)) {}
};

}  // namespace

TEST_CASE("a step's loss is the same on one thread and on two", "[train][cpu][U77]") {
  cpu_run<> one(1), two(2);
  one.trainer.begin_phase(0);
  two.trainer.begin_phase(0);
  auto const a = one.trainer.update(0, 1, 1, 3e-3), b = two.trainer.update(0, 1, 1, 3e-3);
  REQUIRE((a.tokens == b.tokens && a.tokens > 200));
  CHECK(test::relative(b.loss, a.loss) < 1e-6);
  CHECK(test::relative(b.kd, a.kd) < 1e-5);
  CHECK(test::relative(b.ce, a.ce) < 1e-6);
  CHECK(test::relative(b.gradient_norm, a.gradient_norm) < 1e-5);
}

TEMPLATE_TEST_CASE("two runs on two threads are the same to the last bit", "[train][cpu][U77]", f32, bf16) {
  cpu_run<TestType> first(2), second(2);
  auto const a = first.trainer.run(), b = second.trainer.run();
  REQUIRE(a.steps.size() == 6);
  CHECK(test::same_records(a.steps, b.steps));
  CHECK(a.evaluations.back().ce == b.evaluations.back().ce);
  CHECK(test::same_bits(test::values_of(first.s), test::values_of(second.s)));
  CHECK(a.steps.back().loss < a.steps.front().loss);
}

TEMPLATE_TEST_CASE("a run on two threads that is left after any update goes on to the same bits",
                   "[train][cpu][resume][U53]", f32, bf16) {
  auto r = cpu_recipe();
  r.evaluate_every = 2;
  for (bool const pieces : {false, true}) {  // gradients that add up, and the teacher's states from a file
    r.micro_tokens = pieces ? 160 : 0;
    test::temporary_folder const folder;
    auto const cache = pieces ? folder / "cache" : std::filesystem::path();
    cpu_run<TestType> straight(2, r, cache);
    auto const whole = straight.trainer.run();
    for (index_t last = 1; last <= 6; ++last) {
      train::checkpoint_options keep;
      keep.folder = folder / ("run-" + std::to_string(last));
      train::run_events events;
      index_t done = 0;
      events.on_step = [&](train::step_record const& s) { done = s.step; };
      events.stop_wanted = [&] { return done == last; };
      CHECK_FALSE(cpu_run<TestType>(2, r, cache, events, keep).trainer.run().finished);
      cpu_run<TestType> rest(2, r, cache, {}, keep);
      CAPTURE(pieces, last);
      CHECK(test::same_result(rest.trainer.run(), whole));
      CHECK(test::same_bits(test::training_state_of(rest.s), test::training_state_of(straight.s)));
    }
  }
}

TEST_CASE("an update on the CPU asks for no memory after the first of its phase", "[train][cpu][memory]") {
  for (int const threads : {1, 2}) {
    cpu_run<own> run(threads);
    index_t step = 0;
    for (int p = 0; p < 2; ++p) {
      REQUIRE(test::requests_of([&] { run.trainer.begin_phase(p); }) > 0);
      (void)run.trainer.update(p, ++step, 1, 1e-3);
      std::size_t sum = 0;
      for (index_t i = 2; i <= 4; ++i)
        sum += test::requests_of([&] { (void)run.trainer.update(p, ++step, i, 1e-3); });
      CAPTURE(threads, p);
      CHECK(sum == 0);
      CHECK(run.trainer.step_memory().memory.used() == run.trainer.step_memory().memory.capacity());
    }
  }
}

TEST_CASE("a clip in f32 survives a norm whose square no float holds", "[train][cpu][U49]") {
  cpu_run<> run(1);
  run.trainer.begin_phase(0);
  auto& head = run.s.head();
  train::zero_gradients(run.s);
  for (index_t i = 0; i < 100; ++i) head.gradient.data()[i] = 1e20f;
  auto const before = double(head.value.data()[7]);
  run.r.max_gradient_norm = 1;
  auto const report = train::apply_adamw(run.s, run.r, 1e-3, 1);
  CHECK(test::relative(report.gradient_norm, 1e21) < 1e-6);
  CHECK(test::relative(double(head.moment1.data()[7]), 0.1 * (1 - run.r.beta1)) < 1e-5);
  CHECK(test::relative(double(head.moment2.data()[7]), 0.01 * (1 - run.r.beta2)) < 1e-5);
  CHECK(test::relative(before - double(head.value.data()[7]), 1e-3) < 1e-3);
}

TEST_CASE("a run in bfloat16 learns as the one in f32 does", "[train][cpu][bfloat16]") {
  auto r = cpu_recipe();
  r.steps = 12;
  cpu_run<f32> wide(2, r);
  cpu_run<bf16> narrow(2, r);
  auto const a = wide.trainer.run(), b = narrow.trainer.run();
  REQUIRE(a.steps.size() == b.steps.size());
  for (std::size_t i = 0; i < a.steps.size(); ++i) {
    CAPTURE(i, a.steps[i].loss, b.steps[i].loss);
    CHECK(test::relative(b.steps[i].loss, a.steps[i].loss) < 2e-3);
  }
  CHECK(a.steps.back().loss < 0.98 * a.steps.front().loss);
  // Activations and what is multiplied are held in half of the bytes, streams as before.
  CHECK(double(narrow.trainer.step_memory().bytes()) < 0.8 * double(wide.trainer.step_memory().bytes()));
}

TEST_CASE("a teacher's states in bfloat16 are the same live and from a file", "[train][cpu][bfloat16][cache]") {
  test::temporary_folder const folder;
  cpu_run<bf16> live(2), cached(2, cpu_recipe(), folder / "cache");
  auto const a = live.trainer.run(), b = cached.trainer.run();
  REQUIRE(a.steps.size() == b.steps.size());
  for (std::size_t i = 0; i < a.steps.size(); ++i)
    CHECK(test::relative(b.steps[i].loss, a.steps[i].loss) < 2e-4);
}
