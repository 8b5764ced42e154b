// Random residual equations: what the planner of memory and gradients does where nobody thought of it.
#include <cmath>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

#include "accrete/core/rng.hpp"
#include "accrete/wiring/expression.hpp"
#include "accrete/wiring/program.hpp"
#include "accrete/wiring/values.hpp"
#include "support/catch.hpp"
#include "support/sound_run.hpp"

namespace {

using namespace accrete::wiring;
namespace wiring_detail = accrete::wiring::detail;

struct by_root {
  static constexpr char const* name = "1/sqrt(l+1)";
  static double at(site s) { return 1 / std::sqrt(s.layer + 1.0); }
};

// A random equation: ten nodes, each on earlier ones, both sublayers, on one stream or on two.
template <int Seed, int Streams>
struct random_equation {
  static constexpr int nodes = 10;
  static constexpr int draw(int step, int what, int n) {
    accrete::random_stream const r(accrete::seed{std::uint64_t(Seed)}, "random equation");
    return int(r.below(std::uint64_t(4 * step + what), std::uint64_t(n)));
  }
  template <int Step, class... Pool>
  static constexpr auto grow(list<Pool...> pool) {
    constexpr int size = int(sizeof...(Pool));
    // Half of the operands are the newest value, so that chains grow long enough to be rebuilt.
    constexpr auto pick = [](int what) {
      return draw(Step, what, 2) ? size - 1 : draw(Step + 100, what, size);
    };
    constexpr auto a = wiring_detail::element<pick(0)>(pool);
    constexpr auto b = wiring_detail::element<pick(1)>(pool);
    if constexpr (Step == nodes) {
      constexpr auto newest = wiring_detail::element<size - 1>(pool);
      if constexpr (Streams == 1)
        return newest;
      else
        return streams(newest, b);
    } else {
      return grow<Step + 1>([](auto next) { return list<Pool..., decltype(next)>{}; }(node<Step>(a, b)));
    }
  }
  template <int Step, class A, class B>
  static constexpr auto node(A a, B b) {
    constexpr int kind = draw(Step, 2, 8);
    if constexpr (Step == 2) {
      return attn(a);
    } else if constexpr (Step == 6) {
      return mlp(a);
    } else if constexpr (kind < 2) {
      return norm_<kind>(a);
    } else if constexpr (kind == 2) {
      return unit(a);
    } else if constexpr (kind == 3) {
      return constant<by_root>{} * a;
    } else if constexpr (kind == 4) {
      return straight_through(a, b);
    } else {
      return a + b;
    }
  }
  using inputs = std::conditional_t<Streams == 1, list<stream<0>>, list<stream<0>, stream<1>>>;
  using type = decltype(grow<0>(inputs{}));
};

template <int Streams, int... Seed>
void require_random_equations(std::integer_sequence<int, Seed...>) {
  (test::require_sound_run<program<typename random_equation<Seed, Streams>::type>>(
       (std::to_string(Streams) + " streams, seed " + std::to_string(Seed)).c_str()),
   ...);
}

}  // namespace

TEST_CASE("wiring program agrees with a plain interpreter on random equations", "[wiring][program]") {
  require_random_equations<1>(std::make_integer_sequence<int, 24>{});
  require_random_equations<2>(std::make_integer_sequence<int, 16>{});
}
