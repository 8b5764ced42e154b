#include "accrete/io/rotary_scaling.hpp"

#include <cmath>
#include <numeric>
#include <vector>

#include "support/catch.hpp"
#include "support/files.hpp"

using namespace accrete::io;

namespace {

bool near(double a, double b) {
  return std::abs(a / b - 1) < 1e-13;
}

}  // namespace

TEST_CASE("rotary_frequencies gives plain powers of theta", "[io][rotary][U41]") {
  auto const f = rotary_frequencies(128, 1e6);
  REQUIRE(f.size() == 64);
  CHECK(f[0] == 1.0);
  CHECK(near(f[1], 0.8058421877614819));
  CHECK(near(f[32], 1e-3));
  CHECK(near(f[63], 1.2409377607517206e-06));
}

// Numbers by tests/reference/rotary_frequencies.py.
TEST_CASE("rotary_frequencies stretches slow waves as Llama 3.1 and 3.2 do", "[io][rotary]") {
  auto const f = rotary_frequencies(128, 5e5, {rotary_kind::llama3, 8, 1, 4, 8192});
  auto const plain = rotary_frequencies(128, 5e5);
  CHECK(near(std::accumulate(f.begin(), f.end(), 0.0), 5.386058200728573));
  CHECK(f[28] == plain[28]);
  CHECK(near(f[28], 0.003211445994752591));
  CHECK(near(f[32], 0.0005248461609929547));
  CHECK(near(f[36], 7.78465527393245e-05));
  CHECK(near(f[60], 5.677088100759837e-07));
  int kept = 0, divided = 0;
  for (std::size_t i = 0; i < f.size(); ++i) {
    kept += f[i] == plain[i];
    divided += near(f[i], plain[i] / 8);
  }
  CHECK(kept == 29);
  CHECK(divided == 29);

  auto const g = rotary_frequencies(64, 5e5, {rotary_kind::llama3, 32, 1, 4, 8192});
  CHECK(near(std::accumulate(g.begin(), g.end(), 0.0), 2.9682022978421543));
  CHECK(near(g[14], 0.003211445994752591));
  CHECK(near(g[16], 0.00042955679655936815));
  CHECK(near(g[18], 1.9461638184831125e-05));
}

TEST_CASE("rotary_scaling says what it is, and refuses numbers that make no sense", "[io][rotary]") {
  rotary_scaling const good{rotary_kind::llama3, 8, 1, 4, 8192};
  CHECK(text_of(good) == "llama3, factor 8 (1 to 4 of 8192)");
  CHECK(text_of(rotary_scaling{rotary_kind::llama3, 1.5, 0.25, 4, 100}) ==
        "llama3, factor 1.5 (0.25 to 4 of 100)");
  CHECK(text_of(rotary_scaling{}) == "plain");
  CHECK(rotary_scaling{} == rotary_scaling{rotary_kind::plain, 8, 2, 5, 7});  // the numbers are not used
  CHECK_FALSE(good == rotary_scaling{});
  CHECK_FALSE(good == rotary_scaling{rotary_kind::llama3, 9, 1, 4, 8192});
  auto const refusal = [](rotary_scaling const& s) {
    return test::error_of([&] { require_sound(s, "here"); });
  };
  CHECK(refusal(good).empty());
  CHECK(refusal(rotary_scaling{rotary_kind::plain, -1, 0, 0, 0}).empty());
  for (auto const& bad :
       {rotary_scaling{rotary_kind::llama3, 0.5, 1, 4, 8192},
        rotary_scaling{rotary_kind::llama3, NAN, 1, 4, 8192},
        rotary_scaling{rotary_kind::llama3, 8, 4, 4, 8192}, rotary_scaling{rotary_kind::llama3, 8, 0, 4, 8192},
        rotary_scaling{rotary_kind::llama3, 8, 1, INFINITY, 8192},
        rotary_scaling{rotary_kind::llama3, 8, 1, 4, 0}})
    CHECK(test::one_line(refusal(bad)));
}
