#include "accrete/distill/vocabulary_head.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "accrete/core/error.hpp"
#include "accrete/data/ragged_batch.hpp"
#include "accrete/reference/backend.hpp"
#include "support/catch.hpp"
#include "support/matrix.hpp"

using namespace accrete;
using test::matrix;

namespace {

using backend_type = reference::backend<double>;
constexpr backend_type ctx;

model::parameter<backend_type> head_of(matrix<> const& weights) {
  auto const v = weights.view();
  model::parameter<backend_type> head(model::parameter_role::head,
                                      model::named_rows({{"lm_head.weight", v.rows()}}), v.columns());
  for (index_t i = 0; i < v.rows(); ++i) std::copy_n(v.row(i), v.columns(), head.value.view().row(i));
  head.set_trainable(true);
  return head;
}

struct result {
  distillation::loss_sums sums;
  matrix<> dhidden;
  matrix<> dhead;
};

/// Teacher states [T, D_t] under teacher_head [V, D_t] against student states [T, D] under head [V, D].
result distil(matrix<> const& teacher, matrix<> const& teacher_head, matrix<> const& student,
              matrix<> const& head, view<std::int32_t const, 1> targets, distillation_weights const& weights,
              distillation::slice_lengths slices = {512, 64}) {
  auto weight = head_of(head);
  result r{{},
           matrix<>(student.view().rows(), student.view().columns()),
           matrix<>(head.view().rows(), head.view().columns())};
  r.dhidden.fill(std::nan(""));
  distillation::vocabulary_head<backend_type> both(head.view().rows(), slices);
  r.sums = both.distill(ctx, teacher.view(), teacher_head.view(), student.view(), weight, targets, weights,
                        r.dhidden.view());
  for (index_t i = 0; i < head.view().rows(); ++i)
    std::copy_n(weight.gradient.view().row(i), head.view().columns(), r.dhead.view().row(i));
  return r;
}

matrix<> identity(index_t n, double size = 1.0) {
  matrix<> m(n, n);
  for (index_t i = 0; i < n; ++i) m(i, i) = size;
  return m;
}
matrix<> rows_of(matrix<> const& all, index_t first, index_t count) {
  matrix<> some(count, all.view().columns());
  for (index_t i = 0; i < count; ++i)
    std::copy_n(all.view().row(first + i), all.view().columns(), some.view().row(i));
  return some;
}
double largest(matrix<> const& m) {
  return test::difference(m, matrix<>(m.view().rows(), m.view().columns()));
}
double relative(double a, double b) {
  return std::abs(a - b) / std::abs(b);
}

constexpr index_t vocabulary = 11;
constexpr distillation_weights weights{1.5, 0.7, 0.3, 1.0 / 11};

/// 14 tokens, two of which have no target; the teacher is wider than the student.
struct example {
  matrix<> teacher = matrix<>::random(14, 7, "teacher states");
  matrix<> teacher_head = matrix<>::random(vocabulary, 7, "teacher head", 0, 0.5);
  matrix<> student = matrix<>::random(14, 5, "student states");
  matrix<> head = matrix<>::random(vocabulary, 5, "student head", 0, 0.5);
  test::ids targets{3, 10, 0, -1, 7, 7, 2, 5, 1, 9, -1, 4, 6, 8};

  [[nodiscard]] result run(distillation::slice_lengths slices = {512, 64}) const {
    return distil(teacher, teacher_head, student, head, targets, weights, slices);
  }
};

}  // namespace

TEST_CASE("the vocabulary head gives the losses and gradients of logits written out",
          "[distill][vocabulary_head][U17]") {
  example const e;  // each model has its own width and its own head
  matrix<> teacher(14, vocabulary), logits(14, vocabulary);
  auto product = [](matrix<> const& x, matrix<> const& w, index_t t, index_t v) {
    double sum = 0;
    for (index_t k = 0; k < x.view().columns(); ++k) sum += x(t, k) * w(v, k);
    return sum;
  };
  double kd = 0, ce = 0;
  matrix<> dlogits(14, vocabulary);
  for (index_t t = 0; t < 14; ++t) {
    if (e.targets.view()(t) < 0) continue;
    std::array<double, vocabulary> zt{}, zs{};
    double sum_t = 0, sum_s = 0, sum_1 = 0;
    for (index_t v = 0; v < vocabulary; ++v) {
      zt[std::size_t(v)] = product(e.teacher, e.teacher_head, t, v);
      zs[std::size_t(v)] = product(e.student, e.head, t, v);
      sum_t += std::exp(zt[std::size_t(v)] / 1.5);
      sum_s += std::exp(zs[std::size_t(v)] / 1.5);
      sum_1 += std::exp(zs[std::size_t(v)]);
    }
    ce += std::log(sum_1) - zs[std::size_t(e.targets.view()(t))];
    for (index_t v = 0; v < vocabulary; ++v) {
      double const p = std::exp(zt[std::size_t(v)] / 1.5) / sum_t;
      double const q = std::exp(zs[std::size_t(v)] / 1.5) / sum_s;
      kd += 2.25 * p * std::log(p / q);
      dlogits(t, v) = (0.7 * 1.5 * (q - p) +
                       0.3 * (std::exp(zs[std::size_t(v)]) / sum_1 - (v == e.targets.view()(t) ? 1.0 : 0.0))) /
                      11;
    }
  }
  matrix<> dhidden(14, 5), dhead(vocabulary, 5);
  for (index_t t = 0; t < 14; ++t)
    for (index_t v = 0; v < vocabulary; ++v)
      for (index_t k = 0; k < 5; ++k) {
        dhidden(t, k) += dlogits(t, v) * e.head(v, k);
        dhead(v, k) += dlogits(t, v) * e.student(t, k);
      }
  auto const r = e.run();
  CHECK(relative(r.sums.kd, kd) < 1e-12);
  CHECK(relative(r.sums.ce, ce) < 1e-12);
  CHECK(test::difference(r.dhidden, dhidden) < 1e-13);
  CHECK(test::difference(r.dhead, dhead) < 1e-13);
  CHECK(largest(dhead) > 0.01);
}

TEST_CASE("the vocabulary head gives the same whatever the slices", "[distill][vocabulary_head]") {
  example const e;
  auto const whole = e.run({14, 14});
  for (index_t student : {1, 7, 14, 100})
    for (index_t teacher : {1, 3, 7, 14, 100}) {
      CAPTURE(student, teacher);
      auto const r = e.run({student, teacher});
      CHECK(relative(r.sums.kd, whole.sums.kd) < 1e-12);
      CHECK(relative(r.sums.ce, whole.sums.ce) < 1e-12);
      CHECK(test::difference(r.dhidden, whole.dhidden) < 1e-12 * largest(whole.dhidden));
      CHECK(test::difference(r.dhead, whole.dhead) < 1e-12 * largest(whole.dhead));
    }
}

TEST_CASE("a batch seen twice has the same mean loss", "[distill][vocabulary_head][U13]") {
  example const e;
  auto const twice = [](matrix<> const& m) {
    matrix<> both(2 * m.view().rows(), m.view().columns());
    for (index_t i = 0; i < both.view().rows(); ++i)
      std::copy_n(m.view().row(i % m.view().rows()), m.view().columns(), both.view().row(i));
    return both;
  };
  test::ids targets(28);
  for (index_t i = 0; i < 28; ++i) targets(i) = e.targets.view()(i % 14);
  distillation_weights half = weights;
  half.per_target = weights.per_target / 2;
  auto const once = e.run({4, 3});
  auto const r =
      distil(twice(e.teacher), e.teacher_head, twice(e.student), e.head, targets.view(), half, {4, 3});
  CHECK(once.sums.targets == 12);
  CHECK(r.sums.targets == 24);
  CHECK(relative(once.sums.kd / 12, once.sums.mean_kd()) < 1e-15);
  CHECK(relative(r.sums.mean_kd(), once.sums.mean_kd()) < 1e-12);
  CHECK(relative(r.sums.mean_ce(), once.sums.mean_ce()) < 1e-12);
  CHECK(test::difference(r.dhead, once.dhead) < 1e-12 * largest(once.dhead));
}

TEST_CASE("the vocabulary head without gradients gives the same losses and touches nothing",
          "[distill][vocabulary_head]") {
  example const e;
  auto head = head_of(e.head);
  distillation::vocabulary_head<backend_type> both(vocabulary, {4, 3});
  auto const sums = both.distill(ctx, e.teacher.view(), e.teacher_head.view(), e.student.view(), head,
                                 e.targets.view(), weights, {});
  auto const r = e.run({4, 3});
  CHECK(sums.kd == r.sums.kd);
  CHECK(sums.ce == r.sums.ce);
  CHECK(sums.targets == r.sums.targets);
  for (index_t i = 0; i < head.gradient.size(); ++i) REQUIRE(head.gradient.data()[i] == 0);
  CHECK(both.cross_entropy_of(ctx, e.student.view(), e.head.view(), e.targets.view()).ce == r.sums.ce);
}

TEST_CASE("a frozen head passes the gradient on and keeps none", "[distill][vocabulary_head]") {
  example const e;
  auto head = head_of(e.head);
  head.set_trainable(false);
  matrix<> dhidden(14, 5);
  distillation::vocabulary_head<backend_type> both(vocabulary, {4, 3});
  both.distill(ctx, e.teacher.view(), e.teacher_head.view(), e.student.view(), head, e.targets.view(), weights,
               dhidden.view());
  CHECK(test::difference(dhidden, e.run({4, 3}).dhidden) == 0);
  CHECK(head.gradient.empty());
}

TEST_CASE("the head's gradient adds up over steps", "[distill][vocabulary_head][U38]") {
  example const e;
  auto head = head_of(e.head);
  matrix<> dhidden(14, 5);
  distillation::vocabulary_head<backend_type> both(vocabulary, {4, 3});
  for (int i = 0; i < 2; ++i)
    both.distill(ctx, e.teacher.view(), e.teacher_head.view(), e.student.view(), head, e.targets.view(),
                 weights, dhidden.view());
  auto const once = e.run({4, 3});
  for (index_t v = 0; v < vocabulary; ++v)
    for (index_t k = 0; k < 5; ++k)
      REQUIRE(std::abs(head.gradient.view()(v, k) - 2 * once.dhead(v, k)) < 1e-14);
  CHECK(test::difference(dhidden, once.dhidden) == 0);  // this one is replaced
}

TEST_CASE("the gradient of what the head reads may lie over it", "[distill][vocabulary_head]") {
  example const e;
  auto head = head_of(e.head);
  auto states = rows_of(e.student, 0, 14);
  distillation::vocabulary_head<backend_type> both(vocabulary, {4, 3});
  both.distill(ctx, e.teacher.view(), e.teacher_head.view(), states.view(), head, e.targets.view(), weights,
               states.view());
  auto const apart = e.run({4, 3});
  CHECK(test::difference(states, apart.dhidden) == 0);
  for (index_t v = 0; v < vocabulary; ++v)
    for (index_t k = 0; k < 5; ++k) REQUIRE(head.gradient.view()(v, k) == apart.dhead(v, k));
}

TEST_CASE("a student that is its teacher has no distillation loss and no gradient",
          "[distill][vocabulary_head][U08]") {
  example const e;
  for (double temperature : {0.9, 1.0, 2.0}) {
    auto const r = distil(e.teacher, e.teacher_head, e.teacher, e.teacher_head, e.targets,
                          {temperature, 1.0, 0.0, 1.0 / 12}, {4, 3});
    CAPTURE(temperature);
    CHECK(std::abs(r.sums.kd) < 1e-12);
    CHECK(largest(r.dhidden) < 1e-15);
    CHECK(largest(r.dhead) < 1e-15);
    CHECK(r.sums.ce > 12.0);  // reported, and weighed with 0
  }
}

TEST_CASE("teacher and student are compared at the same position", "[distill][vocabulary_head][U10]") {
  matrix<> const logits(3, 2, {2, 0, 0, 1, 1, 1});
  test::ids const targets{0, 1, 0};
  distillation_weights const kd{1.0, 1.0, 0.0, 1.0};
  for (index_t slice : {1, 2, 3}) {
    auto const same = distil(logits, identity(2), logits, identity(2), targets, kd, {slice, 1});
    CHECK(std::abs(same.sums.kd) < 1e-15);
    auto const shifted = distil(rows_of(logits, 0, 2), identity(2), rows_of(logits, 1, 2), identity(2),
                                targets.view().slice(0, 2), kd, {slice, 1});
    CHECK(std::abs(shifted.sums.kd / 2 - 0.4698345) < 1e-7);
  }
}

TEST_CASE("both losses are sums over the same target tokens, under one denominator",
          "[distill][vocabulary_head][U15]") {
  example const e;
  auto const all = e.run();
  // Tokens without a target say nothing, whatever their states are.
  example other;
  for (index_t t : {3, 10})
    for (index_t k = 0; k < 5; ++k) {
      other.teacher(t, k) = 50;
      other.student(t, k) = -50;
    }
  auto const r = other.run();
  CHECK(r.sums.kd == all.sums.kd);
  CHECK(r.sums.ce == all.sums.ce);
  CHECK(test::difference(r.dhidden, all.dhidden) == 0);
  // The gradient is that of per_target (alpha kd + gamma ce), the parts that are reported.
  double const h = 1e-5;
  auto objective = [&](double step) {
    example moved;
    moved.student(5, 2) += step;
    auto const sums = moved.run().sums;
    return weights.per_target * (weights.alpha * sums.kd + weights.gamma * sums.ce);
  };
  double const difference = (objective(h) - objective(-h)) / (2 * h);
  CHECK(relative(all.dhidden(5, 2), difference) < 1e-6);
  CHECK(std::abs(difference) > 1e-3);

  distillation::loss_sums sums{6, 12, 4};
  CHECK(0.5 * sums.mean_kd() + 0.5 * sums.mean_ce() == 2.25);
  sums += distillation::loss_sums{2, 0, 4};
  CHECK(sums.mean_kd() == 1.0);
  CHECK(sums.mean_ce() == 1.5);
  CHECK(distillation::loss_sums{}.mean_ce() == 0.0);
}

TEST_CASE("targets are the next token, once", "[distill][vocabulary_head][U26]") {
  data::ragged_batch batch;
  std::vector<std::int32_t> const document{5, 7, 9, 11}, another{2, 11, 3};
  auto ce_of = [](data::ragged_batch const& b, index_t ahead) {
    matrix<> states(b.num_tokens(), 12);
    for (index_t d = 0; d < b.num_documents(); ++d)
      for (index_t i = b.offsets[std::size_t(d)]; i + ahead < b.offsets[std::size_t(d) + 1]; ++i)
        states(i, b.tokens[std::size_t(i + ahead)]) = 1;
    distillation::vocabulary_head<backend_type> head(12, {3, 2});
    return head
        .cross_entropy_of(ctx, states.view(), identity(12, 100).view(), {b.targets.data(), {b.num_tokens()}})
        .ce;
  };
  batch.append(document);
  CHECK(batch.num_targets == 3);
  CHECK(ce_of(batch, 1) < 1e-12);
  CHECK(ce_of(batch, 2) > 200);
  batch.append(another);
  data::ragged_batch swapped;
  swapped.append(another);
  swapped.append(document);
  CHECK(batch.num_targets == 5);
  CHECK(ce_of(batch, 1) < 1e-12);
  CHECK(ce_of(swapped, 1) < 1e-12);
}

TEST_CASE("logits of zero cost the logarithm of the vocabulary", "[distill][vocabulary_head][U29]") {
  for (auto const& [size, expected] :
       {std::pair<index_t, double>{151936, 11.9312147}, {50257, 10.8249051}, {32000, 10.3734912}}) {
    matrix<> const states(2, 1), head(size, 1);
    test::ids const targets{0, std::int32_t(size - 1)};
    distillation::vocabulary_head<backend_type> both(size, {2, 1});
    CHECK(std::abs(both.cross_entropy_of(ctx, states.view(), head.view(), targets.view()).ce / 2 - expected) <
          1e-7);
  }
}

TEST_CASE("the vocabulary head refuses sizes that do not fit", "[distill][vocabulary_head]") {
  using Catch::Matchers::ContainsSubstring;
  CHECK_THROWS_AS(distillation::vocabulary_head<backend_type>(vocabulary, {0, 1}), config_error);
  CHECK_THROWS_AS(distillation::vocabulary_head<backend_type>(vocabulary, {4, 0}), config_error);
  example const e;
  auto const short_targets = e.targets.view().slice(0, 13);
  CHECK_THROWS_WITH(distil(e.teacher, e.teacher_head, e.student, e.head, short_targets, weights),
                    ContainsSubstring("targets [13], expected [14]"));
  CHECK_THROWS_AS(
      distil(rows_of(e.teacher, 0, 13), e.teacher_head, e.student, e.head, e.targets.view(), weights),
      shape_error);
  CHECK_THROWS_AS(
      distil(e.teacher, rows_of(e.teacher_head, 0, 10), e.student, e.head, e.targets.view(), weights),
      shape_error);
  test::ids far = {3, 10, 0, -1, 7, 7, 2, 5, 1, 9, -1, 4, 6, std::int32_t(vocabulary)};
  CHECK_THROWS_AS(distil(e.teacher, e.teacher_head, e.student, e.head, far.view(), weights), shape_error);
}

TEST_CASE("slices follow from a budget of bytes and never exceed it", "[distill][slice_lengths]") {
  constexpr std::size_t mib = std::size_t(1) << 20;
  for (std::size_t bytes : {std::size_t(1), mib, 64 * mib, 512 * mib})
    for (index_t v : {23, 32768, 151936})
      for (index_t tokens : {1, 100, 2048}) {
        auto const s = distillation::slice_lengths::within<float>(bytes, v, tokens);
        CAPTURE(bytes, v, tokens, s.student, s.teacher);
        CHECK(s.student >= 1);
        CHECK(s.student <= tokens);
        CHECK(s.teacher >= 1);
        CHECK(s.teacher <= s.student);
        bool const at_least = s.student == 1 && s.teacher == 1;
        if (tokens == 2048 && bytes >= 64 * mib) CHECK(s.teacher % 32 + s.student % 32 == 0);
        CHECK((at_least || std::size_t(s.student + s.teacher) * std::size_t(v) * 4 <= bytes));
      }
  auto const s = distillation::slice_lengths::within<float>(512 * mib, 151936, 2048);
  CHECK(s.student == 512);  // 883 fit, and 630 of them would be five sevenths: four slices of 512
  CHECK(s.teacher == 256);
}
