#include "accrete/reference/norms.hpp"

#include <algorithm>
#include <cmath>

#include "accrete/core/error.hpp"
#include "support/catch.hpp"
#include "support/gradient.hpp"
#include "support/matrix.hpp"

using namespace accrete;
using test::matrix;
using test::vector;

namespace {
constexpr reference::backend<double> ctx;
view<double const, 1> const no_gain;
view<double, 1> const no_gradient;
}  // namespace

TEST_CASE("reference rms norm adds eps inside the root", "[reference][norms]") {
  // U35: with the file's eps of 1e-6, and with a forgotten one of 1e-5.
  matrix<> const x(1, 2, {0.001, -0.001});
  matrix<> y(1, 2);
  vector<> rstd(1);
  rms_norm(ctx, x, no_gain, 1e-6, y, rstd);
  REQUIRE(test::difference(y, {0.7071068, -0.7071068}) < 1e-7);
  REQUIRE(std::abs(rstd(0) - 707.1068) < 1e-4);
  rms_norm(ctx, x, no_gain, 1e-5, y, rstd);
  REQUIRE(test::difference(y, {0.3015113, -0.3015113}) < 1e-7);
}

TEST_CASE("reference rms norm backward agrees with the vectors by hand", "[reference][norms]") {
  // U37: gains collect over rows, and the input's gradient is orthogonal to the input.
  matrix<> const x(2, 2, {3, 4, 6, 8});
  matrix<> const ones(2, 2, {1, 1, 1, 1});
  vector<> const gain{1, 1};
  vector<> rstd(2), dgain(2);
  matrix<> y(2, 2), dx(2, 2);
  rms_norm(ctx, x, gain, 0.0, y, rstd);
  rms_norm_backward(ctx, x, gain, rstd, ones, dx, dgain, store::replace);
  REQUIRE(test::difference(dgain, {1.697056, 2.262742}) < 1e-6);

  matrix<> const row(1, 2, {3, 4}), dy(1, 2, {1, 0});
  matrix<> y1(1, 2), dx1(1, 2);
  vector<> rstd1(1);
  rms_norm(ctx, row, no_gain, 0.0, y1, rstd1);
  rms_norm_backward(ctx, row, no_gain, rstd1, dy, dx1, no_gradient, store::replace);
  REQUIRE(test::difference(dx1, {0.181019, -0.135765}) < 1e-6);

  // A longer row with gains and an uneven upstream gradient.
  matrix<> const x8(1, 8, {1, -2, 0.5, 3, -1.5, 0.25, 2, -0.75});
  matrix<> const u8(1, 8, {0.1, -0.2, 0.3, 0.4, -0.5, 0.6, 0.7, -0.8});
  vector<> const g8{1, 0.5, 2, 1, 1.5, 1, 0.5, 1};
  vector<> rstd8(1), dgain8(8);
  matrix<> y8(1, 8), dx8(1, 8);
  rms_norm(ctx, x8, g8, 0.0, y8, rstd8);
  rms_norm_backward(ctx, x8, g8, rstd8, u8, dx8, dgain8, store::replace);
  REQUIRE(std::abs(rstd8(0) - 0.6153846) < 1e-7);
  REQUIRE(test::difference(dx8, {-0.0659081, 0.1933546, 0.3055075, -0.1361857, -0.2703687, 0.3373691,
                                 -0.0395084, -0.3967228}) < 1e-7);
}

TEST_CASE("reference rms norm has the gradients of its value", "[reference][norms][grad]") {
  index_t const tokens = GENERATE(1, 3, 7);
  index_t const width = GENERATE(1, 5, 8);
  index_t const pad = GENERATE(0, 2);
  // The second is large enough for a forgotten eps to show. One number alone is its own norm: without eps it
  // has no gradient to measure.
  double const eps = std::max(GENERATE(1e-5, 0.1), width == 1 ? 0.1 : 0.0);
  auto x = matrix<>::random(tokens, width, "x", pad);
  auto gain = vector<>::random(width, "gain");
  auto const dy = matrix<>::random(tokens, width, "dy", pad);
  matrix<> y(tokens, width, pad), dx(tokens, width, pad);
  vector<> rstd(tokens), dgain(width);
  auto const loss = [&] {
    rms_norm(ctx, x, gain, eps, y, rstd);
    return test::inner_product<double>(y.view(), dy.view());
  };
  loss();
  rms_norm_backward(ctx, x, gain, rstd, dy, dx, dgain, store::replace);
  REQUIRE(test::relative_gradient_error(x, dx, loss) < 1e-8);
  REQUIRE(test::relative_gradient_error(gain, dgain, loss) < 1e-8);
  REQUIRE((y.guards_hold() && dx.guards_hold()));

  auto const bare_loss = [&] {
    rms_norm(ctx, x, no_gain, eps, y, rstd);
    return test::inner_product<double>(y.view(), dy.view());
  };
  bare_loss();
  dgain.fill(3.0);
  rms_norm_backward(ctx, x, no_gain, rstd, dy, dx, dgain, store::replace);
  REQUIRE(test::relative_gradient_error(x, dx, bare_loss) < 1e-8);
  REQUIRE(dgain(0) == 3.0);
}

TEST_CASE("reference rms norm backward adds to the gain's gradient, and to the input's where asked",
          "[reference][norms]") {
  // U38
  auto const x = matrix<>::random(3, 5, "x");
  auto const gain = vector<>::random(5, "gain");
  auto const dy = matrix<>::random(3, 5, "dy");
  matrix<> y(3, 5), once(3, 5), twice(3, 5);
  vector<> rstd(3), dgain_once(5), dgain_twice(5);
  rms_norm(ctx, x, gain, 1e-5, y, rstd);
  once.fill(99.0);
  rms_norm_backward(ctx, x, gain, rstd, dy, once, dgain_once, store::replace);
  rms_norm_backward(ctx, x, gain, rstd, dy, twice, dgain_twice, store::add);
  rms_norm_backward(ctx, x, gain, rstd, dy, twice, dgain_twice, store::add);
  for (index_t j = 0; j < 5; ++j) {
    REQUIRE(std::abs(dgain_twice(j) - 2 * dgain_once(j)) < 1e-14);
    for (index_t i = 0; i < 3; ++i) REQUIRE(std::abs(twice(i, j) - 2 * once(i, j)) < 1e-14);
  }
  // A frozen gain has no gradient, and changes nothing for the input.
  matrix<> frozen(3, 5);
  rms_norm_backward(ctx, x, gain, rstd, dy, frozen, no_gradient, store::replace);
  REQUIRE(test::difference(frozen, once) == 0.0);
}

TEST_CASE("reference add_rms_norm is the sum and its norm, in place on either", "[reference][norms]") {
  auto const a = matrix<>::random(3, 5, "a");
  auto const b = matrix<>::random(3, 5, "b", 2);
  auto const gain = vector<>::random(5, "gain");
  matrix<> sum(3, 5), y(3, 5), fused_sum(3, 5), fused_y(3, 5);
  vector<> rstd(3), fused_rstd(3);
  for (index_t t = 0; t < 3; ++t) {
    for (index_t i = 0; i < 5; ++i) sum(t, i) = a(t, i) + b(t, i);
  }
  rms_norm(ctx, sum, gain, 1e-5, y, rstd);
  auto const same = [&](auto const& s) {
    return test::difference(s, sum) == 0.0 && test::difference(fused_y, y) == 0.0 &&
           test::difference(fused_rstd, rstd) == 0.0;
  };
  add_rms_norm(ctx, a, b, fused_sum, gain, 1e-5, fused_y, fused_rstd);
  REQUIRE(same(fused_sum));
  matrix<> on_a(3, 5), on_b(3, 5, 1);
  on_a.copy_from(a);
  fused_y.fill(0.0);
  add_rms_norm(ctx, on_a, b, on_a, gain, 1e-5, fused_y, fused_rstd);
  REQUIRE(same(on_a));
  on_b.copy_from(b);
  fused_y.fill(0.0);
  add_rms_norm(ctx, a, on_b, on_b, gain, 1e-5, fused_y, fused_rstd);
  REQUIRE(same(on_b));
}

TEST_CASE("reference head norm treats every head by itself", "[reference][norms]") {
  // U34; over all four numbers it would be [1.194045, 1.592059, .119404, .159206].
  matrix<> x(1, 4, {3, 4, 0.3, 0.4});
  matrix<> y(1, 4), rstd(1, 2);
  head_rms_norm(ctx, x, no_gain, 1e-6, y, rstd);
  REQUIRE(test::difference(y, {0.848528, 1.131371, 0.848525, 1.131366}) < 1e-6);
  head_rms_norm(ctx, x, no_gain, 1e-6, x, rstd);
  REQUIRE(test::difference(x, y) == 0.0);
}

TEST_CASE("reference head norm has the gradients of its value", "[reference][norms][grad]") {
  index_t const tokens = GENERATE(1, 3, 7);
  index_t const heads = GENERATE(1, 3);
  index_t const pad = GENERATE(0, 2);
  index_t const head_dim = 5;
  double const eps = GENERATE(1e-5, 0.1);
  auto x = matrix<>::random(tokens, heads * head_dim, "x", pad);
  auto gain = vector<>::random(head_dim, "gain");
  auto const dy = matrix<>::random(tokens, heads * head_dim, "dy", pad);
  matrix<> y(tokens, heads * head_dim, pad), dx(tokens, heads * head_dim, pad), rstd(tokens, heads);
  vector<> dgain(head_dim);
  auto const loss = [&] {
    head_rms_norm(ctx, x, gain, eps, y, rstd);
    return test::inner_product<double>(y.view(), dy.view());
  };
  loss();
  head_rms_norm_backward(ctx, x, gain, rstd, dy, dx, dgain, store::replace);
  REQUIRE(test::relative_gradient_error(x, dx, loss) < 1e-8);
  REQUIRE(test::relative_gradient_error(gain, dgain, loss) < 1e-8);
  REQUIRE((y.guards_hold() && dx.guards_hold()));

  vector<> twice(head_dim);
  matrix<> dx_twice(tokens, heads * head_dim);
  for (int pass = 0; pass < 2; ++pass) {
    head_rms_norm_backward(ctx, x, gain, rstd, dy, dx_twice, twice, store::add);
  }
  for (index_t i = 0; i < head_dim; ++i) REQUIRE(std::abs(twice(i) - 2 * dgain(i)) < 1e-13);
  REQUIRE(std::abs(dx_twice(0, 0) - 2 * dx(0, 0)) < 1e-13);
}

TEST_CASE("reference norms refuse shapes that do not fit", "[reference][norms]") {
  matrix<> const x(3, 6);
  vector<> const gain(5);
  matrix<> y(3, 6), short_y(2, 6), rstd4(3, 4);
  vector<> rstd(3), rstd2(2);
  REQUIRE_THROWS_WITH(rms_norm(ctx, x, gain, 1e-5, y, rstd), "rms_norm: got gain [5], expected [6]");
  REQUIRE_THROWS_AS(rms_norm(ctx, x, no_gain, 1e-5, short_y, rstd), shape_error);
  REQUIRE_THROWS_AS(rms_norm(ctx, x, no_gain, 1e-5, y, rstd2), shape_error);
  REQUIRE_THROWS_AS(head_rms_norm(ctx, x, no_gain, 1e-5, y, rstd4), shape_error);
  REQUIRE_THROWS_AS(rms_norm_backward(ctx, x, no_gain, rstd2, x, y, no_gradient, store::add), shape_error);
  REQUIRE_THROWS_AS(head_rms_norm_backward(ctx, x, no_gain, rstd4, x, y, no_gradient, store::add), shape_error);
}
