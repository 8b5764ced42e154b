#include "support/gradient.hpp"

#include <cmath>
#include <limits>

#include "support/catch.hpp"
#include "support/matrix.hpp"

// The measuring tools themselves: a ruler that cannot show an error proves nothing.

TEST_CASE("The gradient error is small for the right gradient and 1% for one that is 1% off",
          "[support][gradient][U73]") {
  auto x = test::vector<>::random(5, "x");
  auto const loss = [&] {
    double sum = 0;
    for (int i = 0; i < 5; ++i) sum += std::exp(0.3 * x(i)) * (i + 1);
    return sum;
  };
  auto const gradient = [&](double factor) {
    test::vector<> g(5);
    for (int i = 0; i < 5; ++i) g(i) = factor * 0.3 * std::exp(0.3 * x(i)) * (i + 1);
    return g;
  };
  auto const before = x(3);
  double const right = test::relative_gradient_error(x, gradient(1.0), loss);
  double const wrong = test::relative_gradient_error(x, gradient(1.01), loss);
  REQUIRE(right < 1e-9);
  REQUIRE(std::abs(wrong - 0.01 / 1.01) < 1e-6);
  REQUIRE(x(3) == before);
}

TEST_CASE("The gradient error sees one wrong element of a block of columns", "[support][gradient]") {
  auto w = test::matrix<>::random(3, 4, "w", 2);
  auto const loss = [&] { return 0.5 * test::inner_product<double>(w.view(), w.view()); };
  test::matrix<> gradient(3, 4, 1);
  gradient.copy_from(w);
  double const right = test::relative_gradient_error(w, gradient, loss);
  gradient(2, 3) *= 1.01;
  double const wrong = test::relative_gradient_error(w, gradient, loss);
  REQUIRE(right < 1e-9);
  REQUIRE(wrong > 1e-4);
  REQUIRE(w.guards_hold());
}

TEST_CASE("The gradient error of nan, and of a shape that does not fit, passes no bound",
          "[support][gradient][U73]") {
  test::vector<> x{1, 2};
  auto const loss = [&] { return x(0) + x(1); };
  double const poisoned =
      test::relative_gradient_error(x, test::vector<>{1, std::numeric_limits<double>::quiet_NaN()}, loss);
  double const unfit = test::relative_gradient_error(x, test::vector<>{1, 1, 1}, loss);
  REQUIRE_FALSE(poisoned < 1e300);
  REQUIRE_FALSE(unfit < 1e300);
}

TEST_CASE("The gradient error forgives the noise of differences where the gradient vanishes",
          "[support][gradient]") {
  test::vector<> x{1, 2};
  double const error = test::relative_gradient_error(x, test::vector<>{0, 0}, [] { return 1.0; });
  REQUIRE(error == 0.0);
}

TEST_CASE("The largest difference shows nan, shapes and guards", "[support][matrix]") {
  test::matrix<> a(2, 2, {1, 2, 3, 4});
  test::matrix<> b(2, 2, 3);
  b.copy_from(a);
  REQUIRE(test::difference(a, b) == 0.0);
  REQUIRE(test::difference(a, {1, 2, 3, 4.5}) == 0.5);
  REQUIRE(test::difference(a, {1, 2, 3}) == std::numeric_limits<double>::infinity());
  b(0, 1) = std::nan("");
  REQUIRE(test::difference(a, b) == std::numeric_limits<double>::infinity());
  REQUIRE(b.guards_hold());
  b.view().row(1)[2] = 0;  // one past its last column
  REQUIRE_FALSE(b.guards_hold());
}
