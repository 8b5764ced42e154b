// labels: threads
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "accrete/core/error.hpp"
#include "accrete/core/half.hpp"
#include "accrete/cpu/backend.hpp"
#include "accrete/reference/backend.hpp"
#include "support/agreement.hpp"
#include "support/catch.hpp"
#include "support/providers.hpp"

namespace ac = accrete;
using ac::bfloat16;
using ac::half;
using ac::index_t;
using test::distance;
using test::matrix;
using test::normal;
using test::providers;
using test::widened;

namespace {

ac::reference::backend<double> const oracle;

/// Every place in turn, each third without a target.
std::vector<std::int32_t> targets_of(index_t rows, index_t vocabulary) {
  std::vector<std::int32_t> targets;
  for (index_t t = 0; t < rows; ++t)
    targets.push_back(t % 3 == 2 ? ac::ignore_target : std::int32_t((t * 7919 + 5) % vocabulary));
  return targets;
}
ac::view<std::int32_t const, 1> ids(std::vector<std::int32_t> const& targets) {
  return {targets.data(), {index_t(targets.size())}};
}

}  // namespace

TEST_CASE("half rounds to the nearest, ties to even, and keeps what is no number", "[core][half]") {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    auto const h = half::from_bits(std::uint16_t(bits));
    float const exact = h;
    if (std::isnan(exact)) continue;
    REQUIRE(half(exact).bits == h.bits);
    // Between it and its neighbour away from 0: to the nearer, the middle to the one whose last bit is 0.
    if ((bits & 0x7FFFU) >= 0x7BFFU) continue;
    float const next = half::from_bits(std::uint16_t(bits + 1));
    float const middle = exact / 2 + next / 2;
    REQUIRE(half(middle).bits == (bits % 2 == 0 ? bits : bits + 1));
    REQUIRE(half(std::nextafter(middle, exact)).bits == bits);
    REQUIRE(half(std::nextafter(middle, next)).bits == bits + 1);
  }
  CHECK(half(65519.9F).bits == 0x7BFF);
  CHECK(half(65520.0F).bits == 0x7C00);
  CHECK(half(-1e30).bits == 0xFC00);
  CHECK(half(std::numeric_limits<float>::infinity()).bits == 0x7C00);
  CHECK(std::isnan(float(half(std::numeric_limits<float>::quiet_NaN()))));
}

TEST_CASE("runs of half convert as single ones do", "[cpu][half]") {
  std::vector<half> all(0x10000 + 13);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = half::from_bits(std::uint16_t(i));
  std::vector<float> wide(all.size());
  ac::cpu::detail::convert(all.data(), index_t(all.size()), wide.data());
  for (std::size_t i = 0; i < all.size(); ++i)
    REQUIRE((std::isnan(wide[i])
                 ? std::isnan(float(all[i]))
                 : std::bit_cast<std::uint32_t>(wide[i]) == std::bit_cast<std::uint32_t>(float(all[i]))));
  auto const numbers = normal<float>(1, 5003, 1, 0, 100.0);
  for (float const origin : {0.0F, 17.3F, -1e5F}) {
    std::vector<half> narrow(5003);
    ac::cpu::detail::convert_from(origin, numbers.view().data, 5003, narrow.data());
    for (index_t i = 0; i < 5003; ++i)
      REQUIRE(narrow[std::size_t(i)].bits == half(numbers(0, i) - origin).bits);
  }
}

TEMPLATE_LIST_TEST_CASE("logits of a bfloat16 head are relative to their targets', to eleven bits",
                        "[cpu][logits]", providers) {
  constexpr double half_a_place = 1.0 / 2048;
  for (int const threads : {1, 2}) {
    ac::cpu::backend<bfloat16, TestType> const ctx(threads);
    // The last one: more than one block of rows and of columns, and past the caches.
    for (auto const& [rows, width, vocabulary] :
         std::vector<std::array<index_t, 3>>{{1, 1, 1}, {3, 7, 33}, {9, 64, 1025}, {530, 40, 9001}}) {
      auto const x = normal<bfloat16>(rows, width, 1, 1);
      auto head = normal<bfloat16>(vocabulary, width, 2, 2);
      auto const targets = targets_of(rows, vocabulary);
      matrix<half> logits(rows, vocabulary, 3);
      matrix<double> wide(rows, vocabulary);
      head_logits(ctx, x, head, ids(targets), logits);
      linear(oracle, widened(x), widened(head), wide, ac::store::replace);
      CAPTURE(threads, rows, width, vocabulary);
      REQUIRE(logits.guards_hold());
      double worst = 0;  // in rounding errors of half
      for (index_t t = 0; t < rows; ++t) {
        auto const target = targets[std::size_t(t)];
        double const origin = target == ac::ignore_target ? 0 : wide(t, target);
        for (index_t v = 0; v < vocabulary; ++v) {
          double const exact = wide(t, v) - origin;
          worst = std::max(
              worst, std::abs(double(float(logits(t, v))) - exact) / (std::abs(exact) * half_a_place + 2e-5));
        }
      }
      CHECK(worst < 1);
    }
  }
}

TEST_CASE("losses see nothing of a number that all of a head's logits share", "[cpu][logits]") {
  index_t const rows = 6, width = 64, vocabulary = 2000;
  ac::cpu::backend<bfloat16> const ctx(2);
  auto const x = normal<bfloat16>(rows, width, 1);
  auto const targets = targets_of(rows, vocabulary);
  // A number that every row of the head adds: so far from zero half would have few places left for the rest.
  auto plain = normal<bfloat16>(vocabulary, width, 2, 0, 0.25);
  auto apart = test::copy_of(plain);
  matrix<bfloat16> ones(rows, width);
  for (index_t t = 0; t < rows; ++t)
    for (index_t i = 0; i < width; ++i) ones(t, i) = i == 0 ? bfloat16(1) : x(t, i);
  for (index_t v = 0; v < vocabulary; ++v) {
    plain(v, 0) = bfloat16(0);
    apart(v, 0) = bfloat16(64);
  }
  auto const loss = [&](matrix<bfloat16> const& head) {
    matrix<half> logits(rows, vocabulary);
    double sum = 0;
    head_logits(ctx, ones, head, ids(targets), logits);
    cross_entropy(ctx, logits, ids(targets), {&sum, {1}});
    return sum;
  };
  CHECK(loss(apart) == Approx(loss(plain)).epsilon(2e-6));
  CHECK(loss(plain) > 4 * std::log(200.0));
}

TEMPLATE_TEST_CASE("logits of f32 and f64 are the product itself", "[cpu][logits]", float, double) {
  ac::cpu::backend<TestType> const ctx(2);
  auto const x = normal<TestType>(5, 12, 1), head = normal<TestType>(70, 12, 2);
  matrix<TestType> logits(5, 70), product(5, 70);
  auto const targets = targets_of(5, 70);
  head_logits(ctx, x, head, ids(targets), logits);
  linear(ctx, x, head, product, ac::store::replace);
  CHECK(test::same_bits(logits, product));
}

TEST_CASE("head_logits refuses what does not fit", "[cpu][logits]") {
  ac::cpu::backend<bfloat16> const ctx(1);
  matrix<bfloat16> const x(2, 4), head(7, 4), narrow(7, 3);
  matrix<half> logits(2, 7), fewer(2, 6);
  CHECK_THROWS_AS(head_logits(ctx, x, narrow, ids({1, 2}), logits), ac::shape_error);
  CHECK_THROWS_AS(head_logits(ctx, x, head, ids({1, 2}), fewer), ac::shape_error);
  CHECK_THROWS_AS(head_logits(ctx, x, head, ids({1}), logits), ac::shape_error);
  CHECK_THROWS_AS(head_logits(ctx, x, head, ids({1, 7}), logits), ac::shape_error);
}
