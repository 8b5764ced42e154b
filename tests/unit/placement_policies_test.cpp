// What the shipped placements say of themselves: names, constants, init, ends, and the table of
// docs/policies.md.
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <type_traits>

#include "accrete/placement/deepnorm.hpp"
#include "accrete/placement/hybrid.hpp"
#include "accrete/placement/mix.hpp"
#include "accrete/placement/olmo2.hpp"
#include "accrete/placement/peri.hpp"
#include "accrete/placement/post.hpp"
#include "accrete/placement/pre.hpp"
#include "accrete/placement/residual.hpp"
#include "support/catch.hpp"

namespace {

using namespace accrete;
using placement::norm_name;
using placement::weight_role;

struct unnamed {
  static constexpr auto wiring = wiring::norm(wiring::x + wiring::f(wiring::x));
  static constexpr auto boundary = placement::boundary::none;
};

std::string ends_of(auto ends) {
  auto written = []<class E>(E) { return wiring::text<wiring::program<E>>(); };
  return "`" + written(ends.entry) + "`, `" + written(ends.readout) + "`";
}

// One line of the table: what the program of P's layer says.
template <class P, class E>
std::string row(std::string const& name, E) {
  using program = wiring::program<E>;
  auto cell = [](auto const& value) { return " | " + std::to_string(value); };
  return "| " + name + " | `" + wiring::text<program>() + "` | " + ends_of(P::boundary) +
         cell(program::num_kept) + cell(program::num_rows) + cell(program::num_gains) +
         cell(program::num_fused) + cell(wiring::num_scratch<program>) + " |";
}
template <class P>
std::string row() {
  return row<P>(std::string("`") + P::name + "`", placement::layer_of<P>{});
}

}  // namespace

TEST_CASE("placement table of docs/policies.md is what the programs say", "[placement][docs]") {
  std::set<std::string> lines;
  std::ifstream page(std::filesystem::path(__FILE__).parent_path() / ".." / ".." / "docs" / "policies.md");
  REQUIRE(page);
  for (std::string line; std::getline(page, line);) lines.insert(line);
  auto const mix_rows = []<class When, class A, class B>(wiring::choice<When, A, B>) {
    using placement::mix;
    return std::array{row<mix>("`mix`, " + std::string(When::name), A{}), row<mix>("`mix`, elsewhere", B{})};
  }(placement::layer_of<placement::mix>{});
  for (std::string const& expected :
       {row<placement::pre>(), row<placement::post>(), row<placement::peri>(), row<placement::peri_embedding>(),
        row<placement::olmo2>(), row<placement::deepnorm>(), row<placement::hybrid>(),
        row<placement::residual>(), mix_rows[0], mix_rows[1]}) {
    INFO("expected in docs/policies.md: " << expected);
    CHECK(lines.count(expected) == 1);
  }
}

TEST_CASE("placement deepnorm has the constants of its final depth", "[placement][deepnorm]") {
  struct expected {
    int layers;
    double alpha, beta;
  };
  for (auto const e : {expected{3, 1.5650846, 0.4518010}, expected{6, 1.8612097, 0.3799178},
                       expected{9, 2.0597671, 0.3432945}, expected{12, 2.2133638, 0.3194716},
                       expected{24, 2.6321480, 0.2686425}, expected{36, 2.9129506, 0.2427459}}) {
    for (int layer : {0, e.layers - 1}) {
      CHECK(std::abs(placement::deepnorm::alpha::at({layer, e.layers}) - e.alpha) < 6e-8);
      CHECK(std::abs(placement::deepnorm::beta({layer, e.layers}) - e.beta) < 6e-8);
    }
  }
}

TEST_CASE("placement init is 0.02 unless the method has a rule of its own", "[placement][init]") {
  auto std_of = [](auto p, weight_role role) {
    return placement::init_std<decltype(p)>(role, 96, 32, wiring::site{2, 9});
  };
  for (auto role : {weight_role::query, weight_role::value, weight_role::down}) {
    CHECK(std_of(placement::pre{}, role) == 0.02);
    CHECK(std_of(placement::mix{}, role) == 0.02);
  }
  double const xavier = 0.125;  // sqrt(2 / (96 + 32))
  for (auto role : {weight_role::query, weight_role::key})
    CHECK(std::abs(std_of(placement::deepnorm{}, role) - xavier) < 1e-15);
  for (auto role : {weight_role::value, weight_role::attention_output, weight_role::gate, weight_role::up,
                    weight_role::down})
    CHECK(std::abs(std_of(placement::deepnorm{}, role) - 0.3432945 * xavier) < 1e-8);
}

TEST_CASE("placement norms have the names that exported models need", "[placement][names]") {
  CHECK(norm_name<placement::pre>(0, 2) == "input_layernorm");
  CHECK(norm_name<placement::pre>(1, 2) == "post_attention_layernorm");
  CHECK(norm_name<placement::olmo2>(0, 2) == "post_attention_layernorm");
  CHECK(norm_name<placement::olmo2>(1, 2) == "post_feedforward_layernorm");
  CHECK(norm_name<placement::peri_embedding>(3, 4) == "post_feedforward_layernorm");
  CHECK(norm_name<placement::post>(0, 2) == "attn_norm_0");
  CHECK(norm_name<placement::post>(1, 2) == "mlp_norm_0");
  CHECK(norm_name<placement::residual>(1, 2) == "mlp_norm_0");
}

TEST_CASE("placement without a name is called by its equation", "[placement][names]") {
  CHECK(placement::name_of<unnamed>() == "a = norm(x + attn(x)); norm(a + mlp(a))");
  CHECK(placement::name_of<placement::hybrid>() == "hybrid");
}

TEST_CASE("placement hybrid normalizes q, k and v per head, the others leave that to the model",
          "[placement][hybrid]") {
  STATIC_REQUIRE(placement::head_norms_of<placement::hybrid>() == placement::head_norm::qkv);
  STATIC_REQUIRE(placement::head_norms_of<placement::pre>() == placement::head_norm::none);
}

TEST_CASE("placement mix is post-norm in the lowest quarter of the final depth", "[placement][mix]") {
  auto count_post = [](int depth) {
    int n = 0;
    for (int l = 0; l < depth; ++l) n += placement::mix::lowest_quarter::at({l, depth});
    return n;
  };
  CHECK(count_post(3) == 0);
  CHECK(count_post(4) == 1);
  CHECK(count_post(9) == 2);
  CHECK(count_post(12) == 3);
  CHECK(count_post(36) == 9);
}
