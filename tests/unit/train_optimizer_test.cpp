#include "accrete/train/optimizer.hpp"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "accrete/core/error.hpp"
#include "accrete/growth/joint.hpp"
#include "accrete/placement/pre.hpp"
#include "accrete/reference/backend.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/step_by_hand.hpp"

using namespace accrete;
using model::parameter_role;

namespace {

using f64 = reference::backend<double>;

/// A model of a few one-row weights, which is all that an optimizer sees of one.
template <class B>
struct bare_model {
  B ctx;
  std::vector<model::parameter<B>> all;

  model::parameter<B>& add(std::string const& name, parameter_role role, std::vector<double> const& value) {
    auto& p = all.emplace_back(role, model::named_rows({{name, 1}}), index_t(value.size()));
    p.set_trainable(true);
    for (std::size_t i = 0; i < value.size(); ++i) p.value.data()[i] = typename B::scalar(value[i]);
    return p;
  }
  void set_gradient(std::size_t i, std::vector<double> const& g) {
    for (std::size_t k = 0; k < g.size(); ++k) all[i].gradient.data()[k] = typename B::scalar(g[k]);
  }
  [[nodiscard]] double value(std::size_t i, index_t k = 0) const { return double(all[i].value.data()[k]); }
  [[nodiscard]] double moment1(std::size_t i, index_t k = 0) const { return double(all[i].moment1.data()[k]); }

  [[nodiscard]] B const& context() const { return ctx; }
  template <class Visit>
  void parameters(Visit&& visit) {
    for (auto& p : all) visit(p);
  }
};

/// No clipping, no decay, the usual betas of Adam.
recipe plain() {
  recipe r;
  r.beta1 = 0.9;
  r.beta2 = 0.999;
  r.max_gradient_norm = 1e9;
  return r;
}
bool near(double a, double b, double tolerance = 1e-6) {
  return std::abs(a - b) < tolerance;
}

}  // namespace

TEST_CASE("optimizer adds epsilon outside the root", "[train][optimizer][U46]") {
  for (auto const& [gradient, update] : {std::pair{1e-6, 0.990099}, std::pair{1.0, 1.0}}) {
    bare_model<f64> m;
    m.add("w", parameter_role::matrix, {0});
    m.set_gradient(0, {gradient});
    train::apply_adamw(m, plain(), 1.0, 1);
    CHECK(near(-m.value(0), update));
  }
}

TEST_CASE("optimizer decays matrices and the head, and neither gain nor bias", "[train][optimizer][U48]") {
  auto r = plain();
  r.weight_decay = 0.1;
  bare_model<f64> m;
  m.add("w", parameter_role::matrix, {1});
  m.add("g", parameter_role::norm_gain, {1});
  m.add("h", parameter_role::head, {1});
  m.add("b", parameter_role::bias, {1});
  train::apply_adamw(m, r, 0.1, 1);
  CHECK(near(m.value(0), 0.99, 1e-15));
  CHECK(m.value(1) == 1.0);
  CHECK(near(m.value(2), 0.99, 1e-15));
  CHECK(m.value(3) == 1.0);
}

TEST_CASE("optimizer decays the groups of a student that should be decayed", "[train][optimizer][U48]") {
  auto t = test::tiny_teacher<f64>({.qk_norm = true, .qkv_bias = true});
  student<placement::pre, growth::joint<2, 1>, f64> s(t, seed{42});
  test::enlarge_weights(s);  // biases begin at 0, where a decay would not show
  auto r = plain();
  r.weight_decay = 0.1;
  auto const before = test::values_of(s);
  train::zero_gradients(s);
  train::apply_adamw(s, r, 0.1, 1);
  auto const after = test::values_of(s);
  int decayed = 0, kept = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    bool const vector =
        before[i].name.find("norm") != std::string::npos || before[i].name.find("bias") != std::string::npos;
    (vector ? kept : decayed) += 1;
    CAPTURE(before[i].name);
    if (vector)
      CHECK(test::same_bits(after[i].numbers, before[i].numbers));
    else
      CHECK(test::worst_difference({after[i]}, {before[i]}, 0.99) < 1e-15);
  }
  CHECK(decayed == 2 * 7 + 1);  // q, k, v, o, gate, up, down of two layers; the head
  CHECK(kept ==
        2 * (2 + 2 + 3) + 1);  // two norms, the heads' q and k norms, three biases a layer; the final norm
}

TEST_CASE("clipping survives a norm whose square no float holds", "[train][optimizer][U49]") {
  using f32 = reference::backend<float>;
  bare_model<f32> m;
  m.add("w", parameter_role::matrix, std::vector<double>(60, 0.0));
  m.add("v", parameter_role::matrix, std::vector<double>(40, 0.0));
  m.set_gradient(0, std::vector<double>(60, 1e20));
  m.set_gradient(1, std::vector<double>(40, 1e20));
  auto r = plain();
  r.max_gradient_norm = 1;
  auto const report = train::apply_adamw(m, r, 1e-3, 1);
  CHECK(near(report.gradient_norm / 1e21, 1));
  CHECK(near(report.clip_scale * 1e21, 1));
  for (std::size_t i : {0u, 1u}) {
    CHECK(near(m.moment1(i) / (0.1 * 0.1), 1));  // each gradient is 0.1 after the clip
    CHECK(near(m.value(i) / -1e-3, 1, 1e-5));
  }
}

TEST_CASE("clipping leaves small and zero gradients alone", "[train][optimizer][U49]") {
  bare_model<f64> m;
  m.add("w", parameter_role::matrix, {1, 2});
  auto r = plain();
  r.max_gradient_norm = 5;
  auto report = train::apply_adamw(m, r, 0.1, 1);
  CHECK((report.gradient_norm == 0 && report.clip_scale == 1));
  CHECK((m.value(0) == 1 && m.value(0, 1) == 2));
  m.set_gradient(0, {3, 4});
  report = train::apply_adamw(m, r, 0.1, 2);
  CHECK((near(report.gradient_norm, 5, 1e-14) && report.clip_scale == 1));
  r.max_gradient_norm = 4;
  report = train::apply_adamw(m, r, 0.1, 3);
  CHECK(near(report.clip_scale, 0.8, 1e-14));
}

TEST_CASE("a gradient that is not finite is named with its step, and no weight moves",
          "[train][optimizer][U49]") {
  constexpr double bad[] = {std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(),
                            std::numeric_limits<double>::quiet_NaN()};
  for (double const value : bad) {
    for (std::size_t which : {0u, 1u, 2u}) {
      bare_model<f64> m;
      char const* names[] = {"first.weight", "second.weight", "third.weight"};
      for (char const* name : names) m.add(name, parameter_role::matrix, {1, 1});
      for (std::size_t i = 0; i < 3; ++i) m.set_gradient(i, {0.5, 0.5});
      m.set_gradient(which, {0.5, value});
      std::string text;
      try {
        train::apply_adamw(m, plain(), 0.1, 17);
      } catch (numeric_error const& e) {
        text = e.what();
      }
      CAPTURE(value, which, text);
      CHECK(test::one_line(text));
      CHECK(text.find("step 17: got a gradient of " + std::string(names[which]) + " that is not finite") == 0);
      for (auto const& p : m.all) {
        CHECK((p.value.data()[0] == 1 && p.value.data()[1] == 1));
        CHECK((p.moment1.data()[0] == 0 && p.moment2.data()[0] == 0 && p.updates == 0));
      }
    }
  }
}

TEST_CASE("clipping comes once, after gradients are summed", "[train][optimizer][U50]") {
  bare_model<f64> m;
  m.add("w", parameter_role::matrix, {0, 0});
  m.set_gradient(0, {2, 0});
  accumulate(m.ctx, 1.0, view<double const, 2>(std::vector<double>{0, 2}.data(), {1, 2}),
             m.all[0].gradient.view());
  auto r = plain();
  r.max_gradient_norm = 1;
  auto const report = train::apply_adamw(m, r, 0.1, 1);
  CHECK(near(report.gradient_norm, std::sqrt(8.0), 1e-14));
  CHECK(near(m.moment1(0, 0) / 0.1, 0.707107));
  CHECK(near(m.moment1(0, 1) / 0.1, 0.707107));
  CHECK(m.all[0].gradient.data()[0] == 2);  // the gradient itself is left as it is
}

TEST_CASE("gradients add up until they are zeroed", "[train][optimizer][U38]") {
  auto t = test::tiny_teacher<f64>();
  student<placement::pre, growth::joint<2, 1>, f64> s(t, seed{42});
  test::enlarge_weights(s);
  auto const large = test::random_batch({7, 3, 9, 4});
  auto const small = test::random_batch({2, 5});
  test::step_by_hand d(t, s, large.num_tokens());
  d.see(small);
  train::zero_gradients(s);
  d.step();
  auto const once = test::gradients_of(s);
  d.step();
  CHECK(test::worst_difference(test::gradients_of(s), once, 2.0) < 1e-13);
  // Nothing of a larger batch stays behind.
  train::zero_gradients(s);
  d.see(large);
  d.step();
  train::zero_gradients(s);
  d.see(small);
  d.step();
  CHECK(test::same_bits(test::gradients_of(s), once));
}

TEST_CASE("optimizer corrects its bias by the recipe's betas and the parameter's own count",
          "[train][optimizer][U52][U53]") {
  // Ten updates of g = 1: moments 1 - b^10, so that the eleventh moves by the learning rate.
  bare_model<f64> m;
  auto& p = m.add("w", parameter_role::matrix, {0});
  m.set_gradient(0, {1});
  for (index_t step = 1; step <= 10; ++step) train::apply_adamw(m, plain(), 1.0, step);
  CHECK(p.updates == 10);
  CHECK(near(-m.value(0), 10));
  p.value.data()[0] = 0;
  train::apply_adamw(m, plain(), 1.0, 11);
  CHECK(near(-m.value(0), 1));

  // Fresh moments under the old count would move it by .482133.
  p.moment1.data()[0] = p.moment2.data()[0] = p.value.data()[0] = 0;
  p.updates = 10;
  train::apply_adamw(m, plain(), 1.0, 12);
  CHECK(near(-m.value(0), 0.482133));

  // U52: at step 10, 1 - .95^10 and not 1 - .999^10.
  auto r = plain();
  r.beta2 = 0.95;
  p.moment1.data()[0] = p.moment2.data()[0] = p.value.data()[0] = 0;
  p.updates = 9;
  train::apply_adamw(m, r, 1.0, 13);
  CHECK(near(-m.value(0), 0.1 / (1 - std::pow(0.9, 10)) / std::sqrt(0.05 / 0.401263)));
}

TEST_CASE("resetting the optimizer clears moments and the count of updates", "[train][optimizer]") {
  bare_model<f64> m;
  auto& p = m.add("w", parameter_role::matrix, {0});
  m.set_gradient(0, {1});
  for (index_t step = 1; step <= 10; ++step) train::apply_adamw(m, plain(), 1.0, step);
  train::reset_optimizer(m);
  CHECK((p.moment1.data()[0] == 0 && p.moment2.data()[0] == 0 && p.updates == 0));
  p.value.data()[0] = 0;
  train::apply_adamw(m, plain(), 1.0, 11);
  CHECK(near(-m.value(0), 1));  // .482133 with the old count
}

TEST_CASE("optimizer passes over what is frozen", "[train][optimizer]") {
  bare_model<f64> m;
  m.all.reserve(2);
  m.add("frozen", parameter_role::matrix, {1}).set_trainable(false);
  m.add("w", parameter_role::matrix, {1});
  m.set_gradient(1, {1});
  auto r = plain();
  r.weight_decay = 0.5;
  train::zero_gradients(m);
  m.set_gradient(1, {3});
  CHECK(near(train::apply_adamw(m, r, 0.1, 1).gradient_norm, 3, 1e-14));
  train::reset_optimizer(m);
  CHECK(m.value(0) == 1.0);
  CHECK((m.all[0].updates == 0 && m.all[0].moment1.empty()));
  CHECK(m.value(1) < 1.0);
}

TEST_CASE("a batch without a target has no loss and no gradient, and moves no weight",
          "[train][optimizer][U04][U19]") {
  auto t = test::tiny_teacher<f64>();
  student<placement::pre, growth::joint<2, 1>, f64> s(t, seed{42});
  test::enlarge_weights(s);
  auto const batch = test::random_batch({1, 1, 1});
  REQUIRE(batch.num_targets == 0);
  test::step_by_hand d(t, s, batch);
  recipe const r;
  d.weights = r.weights(batch.num_targets);
  train::zero_gradients(s);
  auto sums = d.step();
  sums.targets = batch.num_targets;
  CHECK((sums.kd == 0 && sums.ce == 0 && sums.mean_kd() == 0 && sums.mean_ce() == 0));
  for (auto const& g : test::gradients_of(s)) CHECK(test::norm_of(g.numbers) == 0);
  auto const before = test::values_of(s);
  CHECK(train::apply_adamw(s, r, 0.1, 1).gradient_norm == 0);
  CHECK(test::same_bits(test::values_of(s), before));

  // One more batch trains as if nothing had been.
  auto const normal = test::random_batch({3, 5});
  test::step_by_hand after(t, s, normal);
  after.step();
  CHECK(train::apply_adamw(s, r, 0.1, 2).gradient_norm > 1e-3);
  CHECK_FALSE(test::same_bits(test::values_of(s), before));
}
