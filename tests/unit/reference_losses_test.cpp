#include "accrete/reference/losses.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "accrete/core/error.hpp"
#include "support/catch.hpp"
#include "support/gradient.hpp"
#include "support/matrix.hpp"

using namespace accrete;
using test::matrix;

namespace {

constexpr reference::backend<double> ctx;
constexpr double inf = std::numeric_limits<double>::infinity();

struct result {
  double kd = 0, ce = 0;  // the two sums
  matrix<> gradient;
};

result distil(matrix<> const& teacher, matrix<> const& student, test::ids const& targets,
              distillation_weights weights) {
  result r{0, 0, matrix<>(student.view().rows(), student.view().columns())};
  r.gradient.copy_from(student);
  test::vector<> sums(2);
  distillation_loss(ctx, teacher, r.gradient, r.gradient, targets, weights, sums);
  r.kd = sums(0);
  r.ce = sums(1);
  return r;
}

/// Logits whose softmax is p.
matrix<> logits(std::initializer_list<double> p) {
  matrix<> z(1, index_t(p.size()), p);
  for (index_t i = 0; i < index_t(p.size()); ++i) z(0, i) = std::log(z(0, i));
  return z;
}

constexpr distillation_weights kd_only(double temperature) {
  return {temperature, 1.0, 0.0, 1.0};
}

}  // namespace

TEST_CASE("reference distillation loss agrees with the vectors by hand", "[reference][losses]") {
  matrix<> const teacher(1, 4, {2, 1, 0.1, -1});
  matrix<> const student(1, 4, {1.5, 0.5, 0.3, -0.2});
  test::ids const label{1};
  auto const kd = distil(teacher, student, label, {2.0, 1.0, 0.0, 1.0});
  REQUIRE(std::abs(kd.kd - 0.1058552) < 1e-7);
  REQUIRE(std::abs(kd.ce - 1.6161350) < 1e-7);
  REQUIRE(test::difference(kd.gradient, {-0.1279972, -0.0776342, 0.0760002, 0.1296312}) < 1e-7);
  auto const ce = distil(teacher, student, label, {2.0, 0.0, 1.0, 1.0});
  REQUIRE(test::difference(ce.gradient, {0.5400276, -0.8013349, 0.1626532, 0.0986541}) < 1e-7);
  auto const both = distil(teacher, student, label, {2.0, 0.7, 0.3, 1.0});
  REQUIRE(std::abs(0.7 * both.kd + 0.3 * both.ce - 0.5589391) < 1e-7);
  REQUIRE(test::difference(both.gradient, {0.0724102, -0.2947444, 0.1019961, 0.1203381}) < 1e-7);
  // Temperature 1, forward direction: reversed it would be .0752856.
  REQUIRE(std::abs(distil(teacher, student, label, kd_only(1.0)).kd - 0.0587200) < 1e-7);
}

TEST_CASE("reference distillation loss is the divergence of the student from the teacher",
          "[reference][losses]") {
  // U06
  auto const p = logits({0.7, 0.2, 0.1}), q = logits({0.5, 0.3, 0.2});
  REQUIRE(std::abs(distil(p, q, {0}, kd_only(1.0)).kd - 0.0851228) < 1e-7);
  REQUIRE(std::abs(distil(q, p, {0}, kd_only(1.0)).kd - 0.0920329) < 1e-7);
  // ... and falls along its negative gradient.
  auto const r = distil(p, q, {0}, kd_only(1.0));
  matrix<> moved(1, 3);
  for (index_t i = 0; i < 3; ++i) moved(0, i) = q(0, i) - 0.1 * r.gradient(0, i);
  REQUIRE(distil(p, moved, {0}, kd_only(1.0)).kd < r.kd);
}

TEST_CASE("reference distillation loss carries the square of the temperature", "[reference][losses]") {
  // U07
  matrix<> const teacher(1, 3, {2, 1, 0}), student(1, 3);
  auto const check = [&](double tau, double value, double gradient) {
    auto const r = distil(teacher, student, {0}, kd_only(tau));
    REQUIRE(std::abs(r.kd - value) < 1e-6);
    REQUIRE(std::abs(r.gradient(0, 0) - gradient) < 1e-6);
    REQUIRE(std::abs(r.ce - std::log(3.0)) < 1e-12);  // cross-entropy has no temperature
  };
  check(1, 0.266217, -0.331908);
  check(2, 0.313684, -0.346294);
  check(4, 0.328202, -0.343582);
}

TEST_CASE("reference distillation loss of equal logits is nothing at every temperature",
          "[reference][losses]") {
  // U08
  auto const z = matrix<>::random(3, 7, "z", 0, 3.0);
  for (double tau : {0.9, 1.0, 2.0}) {
    auto const r = distil(z, z, {0, 3, 6}, kd_only(tau));
    REQUIRE(std::abs(r.kd) < 1e-14);
    REQUIRE(test::difference(r.gradient, matrix<>(3, 7)) < 1e-15);
  }
}

TEST_CASE("reference distillation loss of a vocabulary padded far below is unchanged", "[reference][losses]") {
  // U09: a column of zero logits instead would cost .0943443.
  matrix<> const student(1, 3, {2, 1, -1e9}), far(1, 3, {2, 1, -1e9}), absent(1, 3, {2, 1, -inf});
  matrix<> const student_absent(1, 3, {2, 1, -inf}), zero_padded(1, 3, {2, 1, 0});
  REQUIRE(distil(far, student, {0}, kd_only(1.0)).kd == 0.0);
  REQUIRE(distil(absent, student, {0}, kd_only(1.0)).kd == 0.0);
  REQUIRE(distil(absent, student_absent, {0}, kd_only(1.0)).kd == 0.0);
  REQUIRE(std::abs(distil(absent, zero_padded, {0}, kd_only(1.0)).kd - 0.0943443) < 1e-7);
}

TEST_CASE("reference distillation loss takes -inf on both sides for an entry that is not there",
          "[reference][losses]") {
  // U11
  matrix<> teacher(1, 3, {0, 0, -inf}), student(1, 3, {std::log(0.25), std::log(0.75), -inf});
  for (double tau : {1.0, 2.0}) {
    auto const r = distil(teacher, student, {0}, {tau, 0.7, 0.3, 1.0});
    if (tau == 1.0) REQUIRE(std::abs(r.kd - 0.1438410) < 1e-7);
    REQUIRE((std::isfinite(r.kd) && std::isfinite(r.ce)));
    REQUIRE((std::isfinite(r.gradient(0, 0)) && std::isfinite(r.gradient(0, 1))));
    REQUIRE(r.gradient(0, 2) == 0.0);
  }
  REQUIRE(distil(teacher, student, {0}, kd_only(1.0)).gradient(0, 2) == 0.0);
}

TEST_CASE("reference losses survive logits past the range of exp", "[reference][losses]") {
  matrix<> const one(1, 2, {0, 2000}), other(1, 2, {2000, 0});
  auto const r = distil(one, other, {0}, {1.0, 1.0, 1.0, 1.0});
  REQUIRE(std::abs(r.kd - 2000) < 1e-9);
  REQUIRE(std::abs(r.ce) < 1e-12);
  REQUIRE(test::difference(r.gradient, {1, -1}) < 1e-12);

  constexpr reference::backend<float> single;
  test::matrix<float> const flat(1, 3, {0, 0, -200});
  test::matrix<float> student(1, 3, {0, 0, -200});
  test::vector<> sums(2);
  distillation_loss(single, flat, student, student, test::ids{0}, kd_only(1.0), sums);
  REQUIRE(std::abs(sums(0)) < 1e-12);
}

TEST_CASE("reference distillation loss has the gradient of its value", "[reference][losses][grad]") {
  index_t const tokens = GENERATE(1, 3, 7);
  index_t const vocabulary = GENERATE(2, 11);
  index_t const pad = GENERATE(0, 2);
  auto const weights =
      GENERATE(distillation_weights{1.0, 1.0, 0.0, 1.0}, distillation_weights{2.0, 0.0, 1.0, 0.5},
               distillation_weights{0.9, 0.7, 0.3, 0.25}, distillation_weights{3.0, 0.4, 1.3, 0.1});
  auto const teacher = matrix<>::random(tokens, vocabulary, "teacher", pad, 2.0);
  auto student = matrix<>::random(tokens, vocabulary, "student", pad, 2.0);
  test::ids targets(tokens);
  for (index_t t = 0; t < tokens; ++t) {
    targets(t) = t == 2 ? ignore_target : std::int32_t((5 * t) % vocabulary);
  }
  matrix<> work(tokens, vocabulary, pad), gradient(tokens, vocabulary, pad);
  auto const loss = [&] {
    test::vector<> sums(2);
    work.copy_from(student);
    distillation_loss(ctx, teacher, work, work, targets, weights, sums);
    return weights.per_target * (weights.alpha * sums(0) + weights.gamma * sums(1));
  };
  loss();
  gradient.copy_from(work);
  REQUIRE(test::relative_gradient_error(student, gradient, loss) < 1e-8);
  REQUIRE((work.guards_hold() && gradient.guards_hold()));
}

TEST_CASE("reference losses leave ignored rows out of everything", "[reference][losses]") {
  // U03: two rows count, two do not, whatever these hold.
  auto const teacher = matrix<>::random(4, 5, "teacher");
  auto student = matrix<>::random(4, 5, "student");
  auto const all = distil(teacher, student, {0, 1, ignore_target, ignore_target}, {});
  for (index_t t = 2; t < 4; ++t) {
    for (index_t i = 0; i < 5; ++i) {
      REQUIRE(all.gradient(t, i) == 0.0);
      student(t, i) = std::numeric_limits<double>::quiet_NaN();
    }
  }
  auto const poisoned = distil(teacher, student, {0, 1, ignore_target, ignore_target}, {});
  REQUIRE((all.kd == poisoned.kd && all.ce == poisoned.ce && all.kd > 0 && all.ce > 0));
  REQUIRE(test::difference(all.gradient, poisoned.gradient) == 0.0);
}

TEST_CASE("reference losses without any target are zero, not nan", "[reference][losses]") {
  // U04, U19
  auto const teacher = matrix<>::random(3, 5, "teacher"), student = matrix<>::random(3, 5, "student");
  test::ids const none{ignore_target, ignore_target, ignore_target};
  auto const r = distil(teacher, student, none, {});
  test::vector<> sum(1);
  cross_entropy(ctx, student, none, sum);
  REQUIRE((r.kd == 0.0 && r.ce == 0.0 && sum(0) == 0.0));
  REQUIRE(test::difference(r.gradient, matrix<>(3, 5)) == 0.0);
}

TEST_CASE("reference cross entropy keeps every class in the denominator", "[reference][losses]") {
  // U20: ignoring a target is not removing its class.
  matrix<> const flat(2, 3, {1, 1, 1, 1, 1, 1});
  test::vector<> sum(1);
  cross_entropy(ctx, flat, test::ids{1, ignore_target}, sum);
  REQUIRE(std::abs(sum(0) - 1.0986123) < 1e-7);
}

TEST_CASE("reference cross entropy of equal logits is the logarithm of the vocabulary", "[reference][losses]") {
  // U29
  auto const check = [](index_t vocabulary, double expected) {
    matrix<> const flat(1, vocabulary);
    test::vector<> sum(1);
    cross_entropy(ctx, flat, test::ids{std::int32_t(vocabulary - 1)}, sum);
    REQUIRE(std::abs(sum(0) - expected) < 1e-6);
    test::vector<> single_sum(1);
    cross_entropy(reference::backend<float>{}, test::matrix<float>(1, vocabulary), test::ids{0}, single_sum);
    REQUIRE(std::abs(single_sum(0) - expected) < 1e-6);
  };
  check(151936, 11.9312147);
  check(50257, 10.8249051);
  check(32000, 10.3734912);
}

TEST_CASE("reference losses build their sums over slices of any length", "[reference][losses]") {
  // U01: every slice length gives the total of one piece; per_target is not in the sums.
  auto const teacher = matrix<>::random(7, 5, "teacher"), student = matrix<>::random(7, 5, "student");
  test::ids const targets{0, 1, ignore_target, 3, 4, 0, ignore_target};
  distillation_weights const weights{2.0, 0.7, 0.3, 0.2};
  auto const whole = distil(teacher, student, targets, weights);
  auto const unscaled = distil(teacher, student, targets, {2.0, 0.7, 0.3, 1.0});
  REQUIRE((whole.kd == unscaled.kd && whole.ce == unscaled.ce));
  for (index_t i = 0; i < 5; ++i) {
    REQUIRE(std::abs(whole.gradient(0, i) - 0.2 * unscaled.gradient(0, i)) < 1e-15);
  }
  for (index_t length : {1, 2, 3, 4}) {
    matrix<> gradient(7, 5);
    gradient.copy_from(student);
    test::vector<> sums{1.0, 2.0}, ce{3.0};
    for (index_t first = 0; first < 7; first += length) {
      index_t const n = std::min(length, 7 - first);
      cross_entropy(ctx, gradient.view().slice(first, n), targets.view().slice(first, n), ce);
      auto const slice = gradient.view().slice(first, n);
      distillation_loss(ctx, teacher.view().slice(first, n), slice, slice,
                        targets.view().slice(first, n), weights, sums);
    }
    REQUIRE(std::abs(sums(0) - 1.0 - whole.kd) < 1e-13);
    REQUIRE(std::abs(sums(1) - 2.0 - whole.ce) < 1e-13);
    REQUIRE(std::abs(ce(0) - 3.0 - whole.ce) < 1e-13);
    REQUIRE(test::difference(gradient, whole.gradient) == 0.0);
  }
}

TEST_CASE("reference losses refuse targets past the vocabulary and name them", "[reference][losses]") {
  // U21: only the one value that means ignore is skipped.
  matrix<> const teacher(3, 5);
  matrix<> student(3, 5);
  test::vector<> sums(2);
  for (std::int32_t bad : {-4, -2, -100, 5, 151936}) {
    test::ids const targets{0, ignore_target, bad};
    auto const expected = " got target " + std::to_string(bad) +
                          " at position 2, expected at least 0 and less than the vocabulary of 5, or -1 to "
                          "ignore it";
    REQUIRE_THROWS_AS(cross_entropy(ctx, student, targets, sums), shape_error);
    REQUIRE_THROWS_WITH(cross_entropy(ctx, student, targets, sums), "cross_entropy:" + expected);
    REQUIRE_THROWS_WITH(distillation_loss(ctx, teacher, student, student, targets, {}, sums),
                        "distillation_loss:" + expected);
  }
}

TEST_CASE("reference losses refuse shapes and temperatures that cannot work", "[reference][losses]") {
  matrix<> const teacher(3, 5), narrow(3, 4);
  matrix<> student(3, 5);
  test::ids const targets{0, 1, 2}, two{0, 1};
  test::vector<> sums(2), one(1), none(0);
  REQUIRE_THROWS_WITH(distillation_loss(ctx, narrow, student, student, targets, {}, sums),
                      "distillation_loss: got teacher [3, 4], expected [3, 5]");
  REQUIRE_THROWS_AS(distillation_loss(ctx, teacher, student, student, two, {}, sums), shape_error);
  REQUIRE_THROWS_AS(distillation_loss(ctx, teacher, student, student, targets, {}, one), shape_error);
  REQUIRE_THROWS_AS(cross_entropy(ctx, teacher, two, sums), shape_error);
  REQUIRE_THROWS_AS(cross_entropy(ctx, teacher, targets, none), shape_error);
  for (double tau : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN()}) {
    distillation_weights weights;
    weights.temperature = tau;
    REQUIRE_THROWS_AS(distillation_loss(ctx, teacher, student, student, targets, weights, sums), config_error);
  }
}
