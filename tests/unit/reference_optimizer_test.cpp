#include "accrete/reference/optimizer.hpp"

#include <cmath>
#include <limits>
#include <string>

#include "accrete/core/error.hpp"
#include "support/catch.hpp"
#include "support/matrix.hpp"

using namespace accrete;
using test::vector;

namespace {

constexpr reference::backend<double> ctx;

adamw_step usual() {
  adamw_step s;
  s.learning_rate = 1.0;
  s.beta1 = 0.9;
  s.beta2 = 0.999;
  return s;
}

/// How far one update moves a parameter of 0.
double moved(adamw_step s, double gradient, double m = 0, double v = 0) {
  vector<> p(1), first{m}, second{v};
  adamw(ctx, p, vector<>{gradient}, first, second, s);
  return -p(0);
}

}  // namespace

TEST_CASE("reference adamw adds epsilon outside the root, after the correction", "[reference][optimizer]") {
  // U46: inside the root, or before the correction, the update is .759747 or less.
  REQUIRE(std::abs(moved(usual(), 1e-6) - 0.990099) < 1e-6);
  REQUIRE(std::abs(moved(usual(), 1.0) - 1.0) < 1e-7);
}

TEST_CASE("reference adamw corrects its moments by its own betas and step", "[reference][optimizer]") {
  // U53: moments lost, count kept. U52: 1 - .95^10 and not 1 - .999^10.
  auto s = usual();
  s.step = 11;
  REQUIRE(std::abs(moved(s, 1.0) - 0.482133) < 1e-6);
  s.beta2 = 0.95;
  s.step = 10;
  double const m = 0.1 / (1 - std::pow(0.9, 10)), v = 0.05 / 0.401263;
  REQUIRE(std::abs(moved(s, 1.0) - m / std::sqrt(v)) < 1e-6);
}

TEST_CASE("reference adamw decays the parameter apart from the gradient", "[reference][optimizer]") {
  // U48
  auto s = usual();
  s.learning_rate = 0.1;
  s.weight_decay = 0.1;
  vector<> p{1.0}, m(1), v(1);
  adamw(ctx, p, vector<>{0.0}, m, v, s);
  REQUIRE(std::abs(p(0) - 0.99) < 1e-15);
  REQUIRE((m(0) == 0.0 && v(0) == 0.0));
  s.weight_decay = 0;
  vector<> gain{1.0};
  adamw(ctx, gain, vector<>{0.0}, m, v, s);
  REQUIRE(gain(0) == 1.0);
}

TEST_CASE("reference adamw follows its equations over many updates", "[reference][optimizer]") {
  // The same method written another way: moments as explicit weighted sums over all gradients so far.
  index_t const n = 5;
  int const updates = 12;
  auto parameter = vector<>::random(n, "p");
  vector<> expected(n), first(n), second(n);
  for (index_t i = 0; i < n; ++i) expected(i) = parameter(i);
  adamw_step s;
  s.learning_rate = 0.03;
  s.beta1 = 0.8;
  s.beta2 = 0.95;
  s.epsilon = 1e-3;
  s.weight_decay = 0.2;
  s.gradient_scale = 0.25;
  auto const gradient_at = [&](int t) { return vector<>::random(n, std::to_string(t)); };
  for (int t = 1; t <= updates; ++t) {
    s.step = t;
    adamw(ctx, parameter, gradient_at(t), first, second, s);
    for (index_t i = 0; i < n; ++i) {
      double m = 0, v = 0, m_total = 0, v_total = 0;
      for (int past = 1; past <= t; ++past) {
        double const g = 0.25 * gradient_at(past)(i);
        double const wm = std::pow(0.8, t - past), wv = std::pow(0.95, t - past);
        m += wm * g;
        v += wv * g * g;
        m_total += wm;
        v_total += wv;
      }
      // A weighted mean is what the bias correction makes of the running averages.
      double const direction = (m / m_total) / (std::sqrt(v / v_total) + 1e-3);
      expected(i) = expected(i) * (1 - 0.03 * 0.2) - 0.03 * direction;
    }
    REQUIRE(test::difference(parameter, expected) < 1e-12);
  }
}

TEST_CASE("reference adamw in f32 stays beside f64", "[reference][optimizer]") {
  test::vector<float> p{1.0f}, m(1), v(1);
  auto s = usual();
  s.learning_rate = 6e-4;
  for (s.step = 1; s.step <= 100; ++s.step) {
    adamw(reference::backend<float>{}, p, test::vector<float>{1.0f}, m, v, s);
  }
  REQUIRE(std::abs(double(p(0)) - 0.94) < 1e-5);
}

TEST_CASE("reference adamw refuses updates counted from 0 and moments of another shape",
          "[reference][optimizer]") {
  auto s = usual();
  vector<> p(2), m(2), v(2), short_moment(1);
  vector<> const g(2);
  REQUIRE_THROWS_WITH(adamw(ctx, p, g, short_moment, v, s), "adamw: got first moment [1], expected [2]");
  REQUIRE_THROWS_AS(adamw(ctx, p, g, m, short_moment, s), shape_error);
  REQUIRE_THROWS_AS(adamw(ctx, p, vector<>(3), m, v, s), shape_error);
  s.step = 0;
  REQUIRE_THROWS_AS(adamw(ctx, p, g, m, v, s), config_error);
}

TEST_CASE("reference sum of squares survives the range of float and shows what is not finite",
          "[reference][optimizer]") {
  // U49: a hundred gradients of 1e20 have a norm of 1e21, whose square no float holds.
  constexpr reference::backend<float> single;
  test::vector<float> g(100);
  g.fill(1e20f);
  REQUIRE(std::abs(std::sqrt(sum_of_squares(single, g)) / 1e21 - 1) < 1e-6);
  g(57) = std::numeric_limits<float>::infinity();
  REQUIRE_FALSE(std::isfinite(sum_of_squares(single, g)));
  g(57) = std::numeric_limits<float>::quiet_NaN();
  REQUIRE_FALSE(std::isfinite(sum_of_squares(single, g)));
  REQUIRE(sum_of_squares(ctx, vector<>(7)) == 0.0);
  REQUIRE(sum_of_squares(ctx, vector<>(0)) == 0.0);
  REQUIRE(sum_of_squares(ctx, vector<>{3, -4}) == 25.0);
}
