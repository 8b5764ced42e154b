#include "accrete/reference/swiglu.hpp"

#include <cmath>

#include "accrete/core/error.hpp"
#include "accrete/reference/linear.hpp"
#include "support/catch.hpp"
#include "support/gradient.hpp"
#include "support/matrix.hpp"

using namespace accrete;
using test::matrix;

namespace {
constexpr reference::backend<double> ctx;
}

TEST_CASE("reference swiglu agrees with the network by hand", "[reference][swiglu]") {
  // Two inputs, three hidden, two outputs; the first three rows are the gate, the next three the up projection.
  matrix<> const x(1, 2, {1, -0.4});
  matrix<> const gate_up_weight(6, 2, {0.5, 1, -1, 0.5, 0.25, -0.75, 1, -0.25, 0.5, 0.75, -0.5, 1});
  matrix<> const down_weight(2, 3, {1, -0.5, 0.25, 0.5, 1, -1});
  matrix<> gate_up(1, 6), hidden(1, 3), y(1, 2);
  linear(ctx, x, gate_up_weight, gate_up, store::replace);
  REQUIRE(test::difference(gate_up, {0.1, -1.2, 0.55, 1.1, 0.2, -0.9}) < 1e-15);
  swiglu(ctx, gate_up, hidden);
  linear(ctx, hidden, down_weight, y, store::replace);
  REQUIRE(test::difference(y, {0.0070505, 0.2872169}) < 1e-7);

  matrix<> const ones(1, 2, {1, 1});
  matrix<> dhidden(1, 3), dgate_up(1, 6), dx(1, 2);
  linear_backward_input(ctx, ones, down_weight, dhidden, store::replace);
  swiglu_backward(ctx, gate_up, dhidden, dgate_up);
  linear_backward_input(ctx, dgate_up, gate_up_weight, dx, store::replace);
  REQUIRE(test::difference(dx, {0.7205195, 0.1372005}) < 1e-7);
}

TEST_CASE("reference swiglu has the gradient of its value", "[reference][swiglu][grad]") {
  index_t const tokens = GENERATE(1, 3, 7);
  index_t const width = GENERATE(1, 5);
  index_t const pad = GENERATE(0, 2);
  auto gate_up = matrix<>::random(tokens, 2 * width, "gate_up", pad, 2.0);
  auto const dout = matrix<>::random(tokens, width, "dout", pad);
  matrix<> out(tokens, width, pad), dgate_up(tokens, 2 * width, pad);
  auto const loss = [&] {
    swiglu(ctx, gate_up, out);
    return test::inner_product<double>(out.view(), dout.view());
  };
  dgate_up.fill(99.0);
  swiglu_backward(ctx, gate_up, dout, dgate_up);
  REQUIRE(test::relative_gradient_error(gate_up, dgate_up, loss) < 1e-8);
  REQUIRE((out.guards_hold() && dgate_up.guards_hold()));
}

TEST_CASE("reference swiglu stays finite for gates of any size", "[reference][swiglu]") {
  matrix<> const gate_up(2, 2, {1000, 3, -1000, 3});
  matrix<> const ones(2, 1, {1, 1});
  matrix<> out(2, 1), gradient(2, 2);
  swiglu(ctx, gate_up, out);
  swiglu_backward(ctx, gate_up, ones, gradient);
  REQUIRE(test::difference(out, {3000, 0}) < 1e-12);
  REQUIRE(test::difference(gradient, {3, 1000, 0, 0}) < 1e-12);
}

TEST_CASE("reference swiglu refuses widths that are not twice its output", "[reference][swiglu]") {
  matrix<> const gate_up(2, 5);
  matrix<> out(2, 2), gradient(2, 5);
  REQUIRE_THROWS_WITH(swiglu(ctx, gate_up, out), "swiglu: got gate|up [2, 5], expected [2, 4]");
  REQUIRE_THROWS_AS(swiglu_backward(ctx, gate_up, out, gradient), shape_error);
}
