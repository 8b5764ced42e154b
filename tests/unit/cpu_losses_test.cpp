// labels: threads
#include <cmath>
#include <cstdint>
#include <limits>
#include <tuple>
#include <vector>

#include "accrete/cpu/backend.hpp"
#include "accrete/reference/backend.hpp"
#include "support/agreement.hpp"
#include "support/catch.hpp"

namespace ac = accrete;
using ac::index_t;
using test::copy_of;
using test::distance;
using test::matrix;
using test::normal;
using test::tolerance;
using test::widened;

using scalars = std::tuple<float, double>;
ac::reference::backend<double> const oracle;

/// Targets of every kind: ignored ones first in every third place.
std::vector<std::int32_t> some_targets(index_t rows, index_t vocabulary) {
  std::vector<std::int32_t> targets;
  for (index_t t = 0; t < rows; ++t) {
    targets.push_back(t % 3 == 2 ? ac::ignore_target : std::int32_t((t * 7919 + 5) % vocabulary));
  }
  return targets;
}
ac::view<std::int32_t const, 1> ids(std::vector<std::int32_t> const& targets) {
  return {targets.data(), {index_t(targets.size())}};
}

TEMPLATE_LIST_TEST_CASE("distillation loss agrees with plain loops", "[cpu][losses]", scalars) {
  using T = TestType;
  ac::cpu::backend<T> const ctx(2);
  for (index_t const rows : {1, 3, 7}) {
    for (index_t const vocabulary : {1, 3, 7, 33, 129, 1024, 3001}) {
      for (double const tau : {1.0, 2.0, 0.5}) {
        for (index_t const gap : {0, 3}) {
          ac::distillation_weights const weights{tau, 0.7, 0.3, 1.0 / 5};
          auto const teacher = normal<T>(rows, vocabulary, 1, gap, 3.0);
          auto student = normal<T>(rows, vocabulary, 2, gap, 3.0);
          auto const targets = some_targets(rows, vocabulary);
          auto const wide_teacher = widened(teacher);
          auto wide_student = widened(student);
          double sums[2] = {10, 20};
          double expected[2] = {10, 20};
          distillation_loss(ctx, teacher, student, student, ids(targets), weights, {sums, {2}});
          distillation_loss(oracle, wide_teacher, wide_student, wide_student, ids(targets), weights, {expected, {2}});
          CAPTURE(rows, vocabulary, tau, gap);
          REQUIRE(std::abs(sums[0] - expected[0]) <= tolerance<T> * std::abs(expected[0]));
          REQUIRE(std::abs(sums[1] - expected[1]) <= tolerance<T> * std::abs(expected[1]));
          REQUIRE(distance(student, wide_student) < tolerance<T>);
        }
      }
    }
  }
}

TEMPLATE_LIST_TEST_CASE("cross entropy agrees with plain loops", "[cpu][losses]", scalars) {
  using T = TestType;
  ac::cpu::backend<T> const ctx(2);
  for (index_t const rows : {1, 3, 33}) {
    for (index_t const vocabulary : {1, 3, 7, 33, 129, 1024, 3001}) {
      auto const logits = normal<T>(rows, vocabulary, 1, rows % 2, 3.0);
      auto const wide = widened(logits);
      auto const targets = some_targets(rows, vocabulary);
      double sum = 10;
      double expected = 10;
      cross_entropy(ctx, logits, ids(targets), {&sum, {1}});
      cross_entropy(oracle, wide, ids(targets), {&expected, {1}});
      CAPTURE(rows, vocabulary);
      REQUIRE(std::abs(sum - expected) <= tolerance<T> * std::abs(expected));
    }
  }
}

TEMPLATE_LIST_TEST_CASE("distillation loss of logits far apart does not overflow", "[cpu][losses]", scalars) {
  using T = TestType;
  // The largest logit comes last, a thousand above all others, and each side has its own offset.
  index_t const vocabulary = 2500;
  auto teacher = normal<T>(1, vocabulary, 1);
  auto student = normal<T>(1, vocabulary, 2);
  for (index_t i = 0; i < vocabulary; ++i) student(0, i) += T(500);
  teacher(0, vocabulary - 1) = T(1000);
  student(0, vocabulary - 1) = T(1500);
  std::vector<std::int32_t> const targets{7};
  auto const wide_teacher = widened(teacher);
  auto wide_student = widened(student);
  double sums[2] = {};
  double expected[2] = {};
  ac::distillation_weights const weights{2.0, 0.7, 0.3, 1.0};
  distillation_loss(ac::cpu::backend<T>(1), teacher, student, student, ids(targets), weights, {sums, {2}});
  distillation_loss(oracle, wide_teacher, wide_student, wide_student, ids(targets), weights, {expected, {2}});
  REQUIRE(std::abs(sums[0] - expected[0]) < 1e-6);
  REQUIRE(std::abs(sums[1] - expected[1]) < tolerance<T> * expected[1]);
  REQUIRE(distance(student, wide_student) < tolerance<T>);
}

TEMPLATE_LIST_TEST_CASE("distillation loss skips entries that both sides exclude", "[cpu][losses]", scalars) {
  using T = TestType;
  T const out = -std::numeric_limits<T>::infinity();
  for (double const tau : {1.0, 2.0}) {
    // Whole chunks of excluded entries at both ends, and single ones between.
    index_t const vocabulary = 5000;
    auto teacher = normal<T>(2, vocabulary, 1);
    auto student = normal<T>(2, vocabulary, 2);
    for (index_t i = 0; i < vocabulary; ++i) {
      if (i < 1100 || i > 3500 || i % 5 == 0) teacher(0, i) = student(0, i) = out;
    }
    std::vector<std::int32_t> const targets{2001, 3};
    auto const wide_teacher = widened(teacher);
    auto wide_student = widened(student);
    double sums[2] = {};
    double expected[2] = {};
    ac::distillation_weights const weights{tau, 0.7, 0.3, 1.0};
    distillation_loss(ac::cpu::backend<T>(2), teacher, student, student, ids(targets), weights, {sums, {2}});
    distillation_loss(oracle, wide_teacher, wide_student, wide_student, ids(targets), weights, {expected, {2}});
    REQUIRE(std::isfinite(expected[0]));
    REQUIRE(std::abs(sums[0] - expected[0]) < tolerance<T> * expected[0]);
    REQUIRE(std::abs(sums[1] - expected[1]) < tolerance<T> * expected[1]);
    REQUIRE(distance(student, wide_student) < tolerance<T>);
    REQUIRE(std::abs(double(student(0, 0))) < 1e-30);
  }
}

TEST_CASE("distillation loss of a student that equals its teacher has no divergence", "[cpu][losses]") {
  auto const teacher = normal<float>(4, 2000, 1, 0, 5.0);
  auto student = copy_of(teacher);
  std::vector<std::int32_t> const targets{1, 2, 3, 4};
  double sums[2] = {};
  distillation_loss(ac::cpu::backend<float>(2), teacher, student, student, ids(targets), {1.5, 1.0, 0.0, 1.0},
                    {sums, {2}});
  REQUIRE(std::abs(sums[0]) < 1e-6);
  for (index_t i = 0; i < 4; ++i) {
    for (index_t j = 0; j < 2000; ++j) REQUIRE(std::abs(student(i, j)) < 1e-7F);
  }
}

TEST_CASE("distillation loss of a logit that is not a number is not a number", "[cpu][losses]") {
  for (index_t const place : {0, 700, 1999}) {
    auto const teacher = normal<float>(1, 2000, 1);
    auto student = normal<float>(1, 2000, 2);
    student(0, place) = std::numeric_limits<float>::quiet_NaN();
    std::vector<std::int32_t> const targets{5};
    double sums[3] = {};
    cross_entropy(ac::cpu::backend<float>(1), student, ids(targets), {&sums[2], {1}});
    distillation_loss(ac::cpu::backend<float>(1), teacher, student, student, ids(targets), {}, {sums, {2}});
    REQUIRE(std::isnan(sums[0]));
    REQUIRE(std::isnan(sums[1]));
    REQUIRE(std::isnan(sums[2]));
    REQUIRE(std::isnan(student(0, 1)));
  }
}

TEST_CASE("distillation loss does not read rows that are ignored, and zeroes their gradient", "[cpu][losses]") {
  matrix<float> teacher(2, 9), student(2, 9);
  for (auto* m : {&teacher, &student}) {
    for (index_t i = 0; i < 9; ++i) (*m)(0, i) = std::numeric_limits<float>::quiet_NaN();
  }
  std::vector<std::int32_t> const targets{ac::ignore_target, 4};
  double sums[2] = {};
  distillation_loss(ac::cpu::backend<float>(1), teacher, student, student, ids(targets), {}, {sums, {2}});
  REQUIRE(std::abs(sums[1] - std::log(9.0)) < 1e-6);
  for (index_t i = 0; i < 9; ++i) REQUIRE(student(0, i) == 0.0F);
}

TEST_CASE("losses refuse a target past the vocabulary by position and value", "[cpu][losses]") {
  ac::cpu::backend<float> const ctx(2);
  matrix<float> teacher(4, 9), student(4, 9);
  double sums[2] = {};
  for (std::int32_t const bad : {9, -2}) {
    std::vector<std::int32_t> const targets{1, ac::ignore_target, bad, 100};
    REQUIRE_THROWS_WITH(distillation_loss(ctx, teacher, student, student, ids(targets), {}, {sums, {2}}),
                        Catch::Matchers::ContainsSubstring("target " + std::to_string(bad) + " at position 2"));
    REQUIRE_THROWS_WITH(cross_entropy(ctx, teacher, ids(targets), {sums, {2}}),
                        Catch::Matchers::ContainsSubstring("target " + std::to_string(bad) + " at position 2"));
  }
  std::vector<std::int32_t> const targets{1, 2, 3, 4};
  REQUIRE_THROWS_AS(distillation_loss(ctx, teacher, student, student, ids(targets), {0.0, 1, 1, 1}, {sums, {2}}),
                    ac::config_error);
  REQUIRE(sums[0] == 0.0);
}

TEST_CASE("losses give the same bits on every run and for every number of threads", "[cpu][losses]") {
  auto const teacher = normal<float>(33, 3001, 1);
  auto const logits = normal<float>(33, 3001, 2);
  auto const targets = some_targets(33, 3001);
  auto const run = [&](int threads) {
    auto student = copy_of(logits);
    double sums[3] = {};
    ac::cpu::backend<float> const ctx(threads);
    distillation_loss(ctx, teacher, student, student, ids(targets), {2.0, 0.7, 0.3, 0.1}, {sums, {2}});
    cross_entropy(ctx, logits, ids(targets), {&sums[2], {1}});
    return std::tuple(std::vector<float>(student.view().data, student.view().data + student.view().size()),
                      sums[0], sums[1], sums[2]);
  };
  auto const first = run(2);
  for (int const threads : {2, 1, 3}) REQUIRE(run(threads) == first);
}
