#include <array>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <vector>

#include "accrete/cpu/backend.hpp"
#include "accrete/reference/backend.hpp"
#include "support/agreement.hpp"
#include "support/catch.hpp"

namespace ac = accrete;
using ac::index_t;
using ac::store;
using test::distance;
using test::matrix;
using test::normal;
using test::tolerance;
using test::widened;

using scalars = std::tuple<float, double>;
constexpr index_t sizes[] = {1, 3, 7, 33, 129};
ac::reference::backend<double> const oracle;

TEMPLATE_LIST_TEST_CASE("linear and its backwards agree with plain loops", "[cpu][linear]", scalars) {
  using T = TestType;
  double const limit = tolerance<T>;
  ac::cpu::backend<T> const ctx(2);
  for (index_t const tokens : sizes) {
    for (index_t const in : sizes) {
      for (index_t const out : sizes) {
        auto const gap = (tokens + in + out) % 3;
        auto const how = (tokens + out) % 4 == 0 ? store::replace : store::add;
        auto const x = normal<T>(tokens, in, 1, gap);
        auto const w = normal<T>(out, in, 2, 2 * gap);
        auto const dy = normal<T>(tokens, out, 3, gap);
        auto const wide_x = widened(x);
        auto const wide_w = widened(w);
        auto const wide_dy = widened(dy);

        auto y = normal<T>(tokens, out, 4, 3 * gap);
        auto wide_y = widened(y);
        linear(ctx, x, w, y, how);
        linear(oracle, wide_x, wide_w, wide_y, how);
        auto dx = normal<T>(tokens, in, 5, gap);
        auto wide_dx = widened(dx);
        linear_backward_input(ctx, dy, w, dx, how);
        linear_backward_input(oracle, wide_dy, wide_w, wide_dx, how);
        auto dw = normal<T>(out, in, 6, gap);
        auto wide_dw = widened(dw);
        linear_backward_weight(ctx, dy, x, dw, how);
        linear_backward_weight(oracle, wide_dy, wide_x, wide_dw, how);

        CAPTURE(tokens, in, out, gap);
        REQUIRE(distance(y, wide_y) < limit);
        REQUIRE(distance(dx, wide_dx) < limit);
        REQUIRE(distance(dw, wide_dw) < limit);
      }
    }
  }
}

TEMPLATE_LIST_TEST_CASE("linear of matrices larger than the provider's blocks agrees with plain loops",
                        "[cpu][linear]", scalars) {
  using T = TestType;
  for (int const threads : {1, 2}) {
    ac::cpu::backend<T> const ctx(threads);
    for (auto const& [tokens, in, out] :
         std::vector<std::array<index_t, 3>>{{261, 801, 133}, {37, 130, 1189}, {1, 801, 1189}, {2405, 3, 5}}) {
      auto const x = normal<T>(tokens, in, 1, 1);
      auto const w = normal<T>(out, in, 2, 2);
      auto const dy = normal<T>(tokens, out, 3, 3);
      matrix<T> y(tokens, out), dx(tokens, in), dw(out, in);
      matrix<double> wide_y(tokens, out), wide_dx(tokens, in), wide_dw(out, in);
      linear(ctx, x, w, y, store::replace);
      linear(oracle, widened(x), widened(w), wide_y, store::replace);
      linear_backward_input(ctx, dy, w, dx, store::replace);
      linear_backward_input(oracle, widened(dy), widened(w), wide_dx, store::replace);
      linear_backward_weight(ctx, dy, x, dw, store::replace);
      linear_backward_weight(oracle, widened(dy), widened(x), wide_dw, store::replace);
      CAPTURE(threads, tokens, in, out);
      REQUIRE(distance(y, wide_y) < tolerance<T>);
      REQUIRE(distance(dx, wide_dx) < tolerance<T>);
      REQUIRE(distance(dw, wide_dw) < tolerance<T>);
    }
  }
}

TEMPLATE_LIST_TEST_CASE("linear with nothing to sum over is zero, or adds nothing", "[cpu][linear]", scalars) {
  using T = TestType;
  ac::cpu::backend<T> const ctx(2);
  matrix<T> const x(3, 0);
  matrix<T> const w(2, 0);
  auto y = normal<T>(3, 2, 1);
  auto const before = copy_of(y);
  linear(ctx, x, w, y, store::add);
  REQUIRE(same_bits(y, before));
  linear(ctx, x, w, y, store::replace);
  REQUIRE(same_bits(y, matrix<T>(3, 2)));
}

TEST_CASE("linear gives the same bits twice, and nearly the same on one thread and on two", "[cpu][linear]") {
  ac::cpu::backend<float> const one(1);
  ac::cpu::backend<float> const two(2);
  for (index_t const tokens : {5, 64, 300}) {
    auto const x = normal<float>(tokens, 192, 1);
    auto const w = normal<float>(517, 192, 2);
    auto const dy = normal<float>(tokens, 517, 3);
    auto const run = [&](ac::cpu::backend<float> const& ctx) {
      std::vector<matrix<float>> results;
      results.emplace_back(tokens, 517);
      results.emplace_back(tokens, 192);
      results.emplace_back(517, 192);
      linear(ctx, x, w, results[0], store::replace);
      linear_backward_input(ctx, dy, w, results[1], store::replace);
      linear_backward_weight(ctx, dy, x, results[2], store::replace);
      return results;
    };
    auto const first = run(two);
    auto const again = run(two);
    auto const alone = run(one);
    for (std::size_t i = 0; i < first.size(); ++i) {
      REQUIRE(same_bits(first[i], again[i]));
      REQUIRE(distance(first[i], alone[i]) < 1e-6);
    }
  }
}

TEST_CASE("linear refuses matrices that do not fit", "[cpu][linear]") {
  ac::cpu::backend<float> const ctx(1);
  matrix<float> const x(4, 3);
  matrix<float> const w(5, 2);
  matrix<float> y(4, 5);
  REQUIRE_THROWS_AS(linear(ctx, x, w, y, store::replace), ac::shape_error);
  REQUIRE_THROWS_AS(linear_backward_input(ctx, x, w, y, store::replace), ac::shape_error);
  REQUIRE_THROWS_AS(linear_backward_weight(ctx, x, w, y, store::replace), ac::shape_error);
}

TEST_CASE("cpu backend refuses to work with no thread", "[cpu][backend]") {
  REQUIRE_THROWS_AS(ac::cpu::backend<float>(0), ac::config_error);
  REQUIRE(ac::cpu::backend<float>(3).threads() == 3);
  REQUIRE(ac::cpu::backend<float>().threads() >= 1);
}
