#include "accrete/core/rng.hpp"

#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "support/catch.hpp"

using namespace accrete;

TEST_CASE("random stream is Philox with the authors' known answers", "[core][rng]") {
  constexpr std::array<std::uint32_t, 4> counter{0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u};
  constexpr std::array<std::uint32_t, 2> key{0xa4093822u, 0x299f31d0u};
  STATIC_REQUIRE(random_stream::philox(counter, key) ==
                 std::array<std::uint32_t, 4>{0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u});
}

TEST_CASE("random stream keeps the bits it had", "[core][rng]") {
  // A change here changes every initialization and data order ever run.
  random_stream const stream(seed{42}, "init", 3);
  REQUIRE(stream.bits(0) == 0xa59819625559b127u);
  REQUIRE(stream.bits(std::uint64_t(1) << 32) == 0xcc4ee3f225e34898u);
}

TEST_CASE("random stream is a function of seed, purpose, index and number alone", "[core][rng]") {
  random_stream const stream(seed{42}, "init", 3), again(seed{42}, "init", 3);
  std::vector<double> forward, backward(100);
  for (std::uint64_t i = 0; i < 100; ++i) forward.push_back(stream.normal(i));
  for (std::uint64_t i = 100; i-- > 0;) {
    (void)again.uniform(i + 17);
    backward[i] = again.normal(i);
  }
  REQUIRE(forward == backward);
  auto const first = [](seed s, char const* purpose, std::uint64_t index) {
    return random_stream(s, purpose, index).bits(0);
  };
  auto const here = first({42}, "init", 3);
  REQUIRE(here != first({43}, "init", 3));
  REQUIRE(here != first({42 + (std::uint64_t(1) << 32)}, "init", 3));
  REQUIRE(here != first({42}, "order", 3));
  REQUIRE(here != first({42}, "", 3));
  REQUIRE(here != first({42}, "init", 4));
  REQUIRE(here != first({42}, "init", 3 + (std::uint64_t(1) << 32)));
  REQUIRE(here != stream.bits(std::uint64_t(1) << 32));
  REQUIRE(here != stream.bits(std::uint64_t(1) << 63));
}

TEST_CASE("random stream's below is the high half of bits times n, exactly", "[core][rng]") {
  __extension__ typedef unsigned __int128 wide;
  random_stream const stream(seed{1}, "below");
  std::uint64_t const one = 1;
  for (std::uint64_t n :
       {one, one + 1, one + 2, one * 10, one << 31, (one << 32) - 1, one << 32, (one << 32) + 1,
        (one << 63) - 1, one << 63, (one << 63) + 1, ~one, ~std::uint64_t(0)}) {
    bool exact = true, within = true;
    for (std::uint64_t i = 0; i < 2000; ++i) {
      std::uint64_t const expected = std::uint64_t((wide(stream.bits(i)) * wide(n)) >> 64);
      exact = exact && stream.below(i, n) == expected;
      within = within && stream.below(i, n) < n;
    }
    REQUIRE(exact);
    REQUIRE(within);
  }
}

TEST_CASE("random stream's below reaches every number equally often", "[core][rng]") {
  random_stream const stream(seed{2}, "below");
  int const n = 10, draws = 400000;
  std::array<int, 10> counts{};
  for (int i = 0; i < draws; ++i) ++counts[stream.below(std::uint64_t(i), n)];
  double chi_square = 0;
  for (int c : counts) chi_square += (c - draws / n) * double(c - draws / n) / (draws / n);
  REQUIRE(chi_square < 21.7);  // 9 degrees of freedom, exceeded once in a hundred times
}

TEST_CASE("random stream's uniform numbers fill [0, 1) evenly", "[core][rng]") {
  random_stream const stream(seed{3}, "uniform");
  int const draws = 400000;
  double sum = 0, squares = 0, smallest = 1, largest = 0;
  for (int i = 0; i < draws; ++i) {
    double const u = stream.uniform(std::uint64_t(i));
    sum += u;
    squares += u * u;
    smallest = u < smallest ? u : smallest;
    largest = u > largest ? u : largest;
  }
  REQUIRE((smallest >= 0 && smallest < 1e-4 && largest < 1 && largest > 1 - 1e-4));
  REQUIRE(std::abs(sum / draws - 0.5) < 0.0025);            // a mean off by 1% is .005 away
  REQUIRE(std::abs(squares / draws - 1.0 / 3.0) < 0.0025);  // .0067
}

TEST_CASE("random stream's normal numbers have the moments of a standard normal", "[core][rng]") {
  random_stream const stream(seed{4}, "normal");
  int const draws = 1000000;
  double sum = 0, squares = 0, cubes = 0, fourths = 0, neighbours = 0, last = 0;
  int within_one = 0, beyond_three = 0;
  for (int i = 0; i < draws; ++i) {
    double const x = stream.normal(std::uint64_t(i));
    sum += x;
    squares += x * x;
    cubes += x * x * x;
    fourths += x * x * x * x;
    if (i % 2 == 1) neighbours += x * last;  // the two that share a block
    last = x;
    within_one += std::abs(x) < 1;
    beyond_three += std::abs(x) > 3;
  }
  REQUIRE(std::abs(sum / draws) < 0.004);               // standard error .001
  REQUIRE(std::abs(squares / draws - 1) < 0.006);       // .0014; a deviation off by 1% is .02 away
  REQUIRE(std::abs(cubes / draws) < 0.016);             // .0039
  REQUIRE(std::abs(fourths / draws - 3) < 0.04);        // .0098
  REQUIRE(std::abs(neighbours / (draws / 2)) < 0.006);  // .0014
  REQUIRE(std::abs(double(within_one) / draws - 0.682689) < 0.002);
  REQUIRE(std::abs(double(beyond_three) / draws - 0.0027) < 0.0002);
}

TEST_CASE("random streams of different purposes and indices are not correlated", "[core][rng]") {
  int const draws = 400000;
  auto const correlation = [](random_stream const& a, random_stream const& b) {
    double sum = 0;
    for (std::uint64_t i = 0; i < draws; ++i) sum += a.normal(i) * b.normal(i);
    return std::abs(sum / draws);
  };
  random_stream const stream(seed{5}, "init", 0);
  REQUIRE(correlation(stream, random_stream(seed{5}, "init", 1)) < 0.006);
  REQUIRE(correlation(stream, random_stream(seed{5}, "order", 0)) < 0.006);
  REQUIRE(correlation(stream, random_stream(seed{6}, "init", 0)) < 0.006);
}
