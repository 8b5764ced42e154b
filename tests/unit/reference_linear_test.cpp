#include "accrete/reference/linear.hpp"

#include <cmath>

#include "accrete/core/error.hpp"
#include "accrete/reference/arithmetic.hpp"
#include "accrete/reference/memory.hpp"
#include "support/catch.hpp"
#include "support/gradient.hpp"
#include "support/matrix.hpp"

using namespace accrete;
using test::matrix;

namespace {
constexpr reference::backend<double> ctx;
}

TEST_CASE("reference linear multiplies by the transposed weight", "[reference][linear]") {
  matrix<> const x(2, 2, {1, 2, 3, 4});
  matrix<> const w(3, 2, {1, 0, 2, -1, 0.5, 3});
  matrix<> y(2, 3);
  linear(ctx, x, w, y, store::replace);
  REQUIRE(test::difference(y, {1, 0, 6.5, 3, 2, 13.5}) == 0.0);

  matrix<> const dy(2, 3, {1, 2, 3, -1, 0, 4});
  matrix<> dx(2, 2), dw(3, 2);
  linear_backward_input(ctx, dy, w, dx, store::replace);
  linear_backward_weight(ctx, dy, x, dw, store::replace);
  REQUIRE(test::difference(dx, {6.5, 7, 1, 12}) == 0.0);
  REQUIRE(test::difference(dw, {-2, -2, 2, 4, 15, 22}) == 0.0);
}

TEST_CASE("reference linear has the gradients of its value", "[reference][linear][grad]") {
  index_t const tokens = GENERATE(1, 3, 7);
  index_t const pad = GENERATE(0, 2);
  index_t const in = 5, out = 3;
  auto x = matrix<>::random(tokens, in, "x", pad);
  auto w = matrix<>::random(out, in, "w", pad);
  auto const dy = matrix<>::random(tokens, out, "dy", pad);
  matrix<> y(tokens, out, pad), dx(tokens, in, pad), dw(out, in, pad);
  auto const loss = [&] {
    linear(ctx, x, w, y, store::replace);
    return test::inner_product<double>(y.view(), dy.view());
  };
  linear_backward_input(ctx, dy, w, dx, store::replace);
  linear_backward_weight(ctx, dy, x, dw, store::replace);
  REQUIRE(test::relative_gradient_error(x, dx, loss) < 1e-8);
  REQUIRE(test::relative_gradient_error(w, dw, loss) < 1e-8);
  REQUIRE((y.guards_hold() && dx.guards_hold() && dw.guards_hold()));
}

TEST_CASE("reference linear adds where asked and replaces where asked", "[reference][linear]") {
  auto const x = matrix<>::random(3, 5, "x");
  auto const w = matrix<>::random(2, 5, "w");
  auto const dy = matrix<>::random(3, 2, "dy");
  auto const check = [](index_t rows, index_t columns, auto operation) {
    matrix<> once(rows, columns), twice(rows, columns), replaced(rows, columns);
    once.fill(99.0);
    replaced.fill(-7.0);
    operation(once, store::replace);
    operation(replaced, store::replace);
    operation(twice, store::add);
    REQUIRE(test::difference(once, twice) == 0.0);
    REQUIRE(test::difference(once, replaced) == 0.0);
    operation(twice, store::add);  // a backward that overwrites loses the first half
    scale(ctx, 2.0, once, once);
    REQUIRE(test::difference(once, twice) < 1e-14);
  };
  check(3, 2, [&](matrix<>& out, store how) { linear(ctx, x, w, out, how); });
  check(3, 5, [&](matrix<>& out, store how) { linear_backward_input(ctx, dy, w, out, how); });
  check(2, 5, [&](matrix<>& out, store how) { linear_backward_weight(ctx, dy, x, out, how); });
}

TEST_CASE("reference linear maps no tokens at all", "[reference][linear]") {
  auto const w = matrix<>::random(2, 5, "w");
  matrix<> const none(0, 5), dnone(0, 2);
  matrix<> y(0, 2), dw(2, 5);
  dw.fill(3.0);
  linear(ctx, none, w, y, store::replace);
  linear_backward_weight(ctx, dnone, none, dw, store::replace);
  REQUIRE(test::difference(dw, matrix<>(2, 5)) == 0.0);
}

TEST_CASE("reference linear refuses shapes that do not fit, in one line", "[reference][linear]") {
  matrix<> const x(3, 5), w(2, 4), narrow(2, 5), dy(3, 2);
  matrix<> y(3, 2), bad(2, 2);
  REQUIRE_THROWS_AS(linear(ctx, x, w, y, store::replace), shape_error);
  REQUIRE_THROWS_WITH(linear(ctx, x, w, y, store::replace), "linear: got w [2, 4], expected [2, 5]");
  REQUIRE_THROWS_WITH(linear(ctx, x, narrow, bad, store::replace), "linear: got y [2, 2], expected [3, 2]");
  REQUIRE_THROWS_AS(linear_backward_input(ctx, dy, w, bad, store::replace), shape_error);
  REQUIRE_THROWS_AS(linear_backward_weight(ctx, dy, x, bad, store::replace), shape_error);
}

TEST_CASE("reference bias is added to every row, and its gradient is the sum of their gradients",
          "[reference][linear][grad]") {
  index_t const tokens = GENERATE(0, 1, 3, 7);
  index_t const pad = GENERATE(0, 2);
  index_t const out = 5;
  auto const x = matrix<>::random(tokens, out, "x", pad);
  auto const dy = matrix<>::random(tokens, out, "dy", pad);
  auto bias = test::vector<>::random(out, "bias");
  matrix<> y(tokens, out, pad);
  auto const loss = [&] {
    y.copy_from(x);
    add_bias(ctx, bias, y);
    return test::inner_product<double>(y.view(), dy.view());
  };
  loss();
  for (index_t t = 0; t < tokens; ++t)
    for (index_t o = 0; o < out; ++o) REQUIRE(y(t, o) == x(t, o) + bias(o));
  test::vector<> dbias(out);
  add_bias_backward(ctx, dy, dbias);
  REQUIRE(test::relative_gradient_error(bias, dbias, loss) < 1e-8);
  auto twice = test::vector<>::random(out, "before");
  auto const before = test::vector<>::random(out, "before");
  add_bias_backward(ctx, dy, twice);
  for (index_t o = 0; o < out; ++o) REQUIRE(std::abs(twice(o) - before(o) - dbias(o)) < 1e-14);
  REQUIRE(y.guards_hold());

  test::vector<> four(4);
  REQUIRE_THROWS_WITH(add_bias(ctx, four, y), "add_bias: got bias [4], expected [5]");
  REQUIRE_THROWS_WITH(add_bias_backward(ctx, dy, four), "add_bias_backward: got dbias [4], expected [5]");
}

TEST_CASE("reference arithmetic works in place and beside", "[reference][arithmetic]") {
  index_t const pad = GENERATE(0, 1);
  auto const a = matrix<>::random(3, 5, "a", pad);
  auto const b = matrix<>::random(3, 5, "b", 2);
  matrix<> sum(3, 5, pad), on_a(3, 5, pad), on_b(3, 5, pad);
  add(ctx, a, b, sum);
  on_a.copy_from(a);
  add(ctx, on_a, b, on_a);
  on_b.copy_from(b);
  add(ctx, a, on_b, on_b);
  for (index_t i = 0; i < 3; ++i) {
    for (index_t j = 0; j < 5; ++j) REQUIRE(sum(i, j) == a(i, j) + b(i, j));
  }
  REQUIRE(test::difference(sum, on_a) == 0.0);
  REQUIRE(test::difference(sum, on_b) == 0.0);

  matrix<> scaled(3, 5, pad);
  scale(ctx, -2.5, a, scaled);
  scale(ctx, -2.5, on_a, on_a);
  accumulate(ctx, -2.5, a, sum);
  for (index_t i = 0; i < 3; ++i) {
    for (index_t j = 0; j < 5; ++j) {
      REQUIRE(scaled(i, j) == -2.5 * a(i, j));
      REQUIRE(on_a(i, j) == -2.5 * (a(i, j) + b(i, j)));
      REQUIRE(std::abs(sum(i, j) - (a(i, j) + b(i, j) - 2.5 * a(i, j))) < 1e-14);  // fused or not
    }
  }
  REQUIRE((sum.guards_hold() && scaled.guards_hold() && on_a.guards_hold()));
  matrix<> const narrow(3, 4);
  REQUIRE_THROWS_WITH(add(ctx, a, narrow, sum), "add: got b [3, 4], expected [3, 5]");
  REQUIRE_THROWS_AS(scale(ctx, 1.0, narrow, sum), shape_error);
  REQUIRE_THROWS_AS(accumulate(ctx, 1.0, narrow, sum), shape_error);
}

TEST_CASE("reference memory operations move and fill vectors, spread ones too", "[reference][memory]") {
  auto const in = test::vector<>::random(6, "in");
  test::vector<> out(6), up(6), down(6);
  copy(ctx, in, out);
  upload(ctx, in, up);
  download(ctx, in, down);
  REQUIRE(test::difference(in, out) == 0.0);
  REQUIRE(test::difference(in, up) == 0.0);
  REQUIRE(test::difference(in, down) == 0.0);

  view<double, 1> const every_other(out.view().data, {3}, 2);
  zero(ctx, every_other);
  REQUIRE(test::difference(out, {0, in(1), 0, in(3), 0, in(5)}) == 0.0);
  test::vector<> five(5);
  REQUIRE_THROWS_WITH(copy(ctx, in, five), "copy: got out [5], expected [6]");
}
