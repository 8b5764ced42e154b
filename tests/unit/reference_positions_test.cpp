#include "accrete/reference/positions.hpp"

#include <cmath>
#include <string>

#include "accrete/core/error.hpp"
#include "support/catch.hpp"
#include "support/gradient.hpp"
#include "support/matrix.hpp"

using namespace accrete;
using test::matrix;

namespace {

constexpr reference::backend<double> ctx;

struct tables {
  matrix<> cosines, sines;
  tables(index_t positions, index_t head_dim, double theta)
      : cosines(positions, head_dim / 2), sines(positions, head_dim / 2) {
    rotary_table(ctx, test::plain_frequencies(head_dim, theta), cosines, sines);
  }
};

}  // namespace

TEST_CASE("reference embed copies rows of the table", "[reference][embed]") {
  auto const table = matrix<>::random(5, 3, "table", 1);
  test::ids const ids{4, 0, 4};
  matrix<> out(3, 3, 2);
  embed(ctx, table, ids, out);
  for (index_t j = 0; j < 3; ++j) {
    REQUIRE(out(0, j) == table(4, j));
    REQUIRE(out(1, j) == table(0, j));
    REQUIRE(out(2, j) == table(4, j));
  }
  REQUIRE(out.guards_hold());
}

TEST_CASE("reference embed refuses ids past the table and names them", "[reference][embed]") {
  matrix<> const table(5, 3);
  matrix<> out(3, 3);
  for (std::int32_t bad : {-4, -1, 5, 151936}) {
    test::ids const ids{0, bad, 1};
    REQUIRE_THROWS_AS(embed(ctx, table, ids, out), shape_error);
    REQUIRE_THROWS_WITH(embed(ctx, table, ids, out),
                        "embed: got id " + std::to_string(bad) +
                            " at position 1, expected at least 0 and less than the "
                            "5 rows of the table");
  }
  test::ids const two{0, 1};
  REQUIRE_THROWS_AS(embed(ctx, table, two, out), shape_error);
}

TEST_CASE("reference rotary table keeps its angles in double", "[reference][rotary]") {
  // U41: a 16-bit position would be 15936, whose cosine is -.267950.
  tables const table(15963, 2, 1e4);
  REQUIRE(std::abs(table.cosines(15962, 0) + 0.908016) < 1e-6);
  REQUIRE(std::abs(table.sines(15962, 0) - std::sin(15962.0)) < 1e-12);
  test::matrix<float> cosines(15963, 1), sines(15963, 1);
  rotary_table(reference::backend<float>{}, test::plain_frequencies(2, 1e4), cosines, sines);
  REQUIRE(std::abs(double(cosines(15962, 0)) + 0.908016) < 1e-6);
}

TEST_CASE("reference rotary turns the pairs of the half split", "[reference][rotary]") {
  // U40; interleaved pairs would give [-1.142640, 1.922076, 2.959851, 4.029800].
  matrix<> x(1, 4, {1, 2, 3, 4});
  tables const small(2, 4, 1e4);
  rotary(ctx, x, test::ids{1}, small.cosines, small.sines, rotation::forward);
  REQUIRE(test::difference(x, {-1.984111, 1.959901, 2.462378, 4.019800}) < 1e-6);

  tables const table(4, 8, 1e4), slow(4, 8, 1e6);
  matrix<> x8(1, 8, {1, 2, 3, 4, 5, 6, 7, 8});
  rotary(ctx, x8, test::ids{3}, table.cosines, table.sines, rotation::forward);
  REQUIRE(test::difference(x8, {-1.6955925, 0.1375517, 2.7886816, 3.9759820, -4.8088425, 6.3230593, 7.0868367,
                                8.0119640}) < 1e-7);
  matrix<> z8(1, 8, {1, 2, 3, 4, 5, 6, 7, 8});
  rotary(ctx, z8, test::ids{3}, slow.cosines, slow.sines, rotation::forward);
  REQUIRE(test::difference(z8, {-1.6955925, 1.4226502, 2.9789865, 3.9992410, -4.8088425, 6.1624724, 7.0089685,
                                8.0003794}) < 1e-7);
}

TEST_CASE("reference rotary turns every head alike, at each token's own position", "[reference][rotary]") {
  tables const table(6, 6, 1e4);
  auto const head = matrix<>::random(2, 6, "head");
  matrix<> x(2, 18, 1);  // three equal heads
  for (index_t h = 0; h < 3; ++h) {
    for (index_t t = 0; t < 2; ++t) {
      for (index_t i = 0; i < 6; ++i) x(t, h * 6 + i) = head(t, i);
    }
  }
  rotary(ctx, x, test::ids{5, 0}, table.cosines, table.sines, rotation::forward);
  REQUIRE(x.guards_hold());
  for (index_t h = 0; h < 3; ++h) {
    for (index_t i = 0; i < 3; ++i) {
      double const angle = 5 * std::pow(1e4, -2.0 * double(i) / 6);
      double const a = head(0, i), b = head(0, i + 3);
      REQUIRE(std::abs(x(0, h * 6 + i) - (a * std::cos(angle) - b * std::sin(angle))) < 1e-14);
      REQUIRE(std::abs(x(0, h * 6 + i + 3) - (b * std::cos(angle) + a * std::sin(angle))) < 1e-14);
      REQUIRE(x(1, h * 6 + i) == head(1, i));
    }
  }
}

TEST_CASE("reference rotary leaves a product to depend on the distance alone", "[reference][rotary]") {
  tables const table(60, 6, 1e4);
  auto const product = [&](std::int32_t at_q, std::int32_t at_k) {
    auto q = matrix<>::random(1, 6, "q");
    auto k = matrix<>::random(1, 6, "k");
    rotary(ctx, q, test::ids{at_q}, table.cosines, table.sines, rotation::forward);
    rotary(ctx, k, test::ids{at_k}, table.cosines, table.sines, rotation::forward);
    return test::inner_product<double>(q.view(), k.view());
  };
  REQUIRE(std::abs(product(7, 3) - product(59, 55)) < 1e-13);
  REQUIRE(std::abs(product(7, 3) - product(7, 4)) > 1e-3);
}

TEST_CASE("reference rotary backward is the inverse rotation", "[reference][rotary][grad]") {
  index_t const tokens = GENERATE(1, 3, 7);
  index_t const heads = GENERATE(1, 3);
  index_t const pad = GENERATE(0, 2);
  index_t const head_dim = 6;
  tables const table(tokens, head_dim, 1e4);
  test::ids positions(tokens);
  for (index_t t = 0; t < tokens; ++t) positions(t) = std::int32_t(tokens - 1 - t);
  auto x = matrix<>::random(tokens, heads * head_dim, "x", pad);
  auto const dy = matrix<>::random(tokens, heads * head_dim, "dy", pad);
  matrix<> y(tokens, heads * head_dim, pad), dx(tokens, heads * head_dim, pad);
  auto const loss = [&] {
    y.copy_from(x);
    rotary(ctx, y, positions, table.cosines, table.sines, rotation::forward);
    return test::inner_product<double>(y.view(), dy.view());
  };
  dx.copy_from(dy);
  rotary(ctx, dx, positions, table.cosines, table.sines, rotation::inverse);
  REQUIRE(test::relative_gradient_error(x, dx, loss) < 1e-8);
  REQUIRE((y.guards_hold() && dx.guards_hold()));

  loss();
  rotary(ctx, y, positions, table.cosines, table.sines, rotation::inverse);
  REQUIRE(test::difference(y, x) < 1e-14);
}

TEST_CASE("reference rotary refuses positions past its table and widths that are no heads",
          "[reference][rotary]") {
  tables const table(4, 6, 1e4);
  matrix<> x(2, 12), odd(2, 9);
  REQUIRE_THROWS_WITH(
      rotary(ctx, x, test::ids{0, 4}, table.cosines, table.sines, rotation::forward),
      "rotary: got id 4 at position 1, expected at least 0 and less than the 4 positions of the table");
  REQUIRE_THROWS_AS(rotary(ctx, odd, test::ids{0, 1}, table.cosines, table.sines, rotation::forward),
                    shape_error);
  REQUIRE_THROWS_AS(rotary(ctx, x, test::ids{0}, table.cosines, table.sines, rotation::forward), shape_error);
  matrix<> cosines(4, 3), sines(4, 3);
  REQUIRE_THROWS_AS(rotary_table(ctx, test::plain_frequencies(8, 1e4), cosines, sines), shape_error);
  REQUIRE_THROWS_AS(rotary_table(ctx, test::plain_frequencies(6, 1e4), cosines, x), shape_error);
}
