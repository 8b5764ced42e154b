// The wiring program: an equation's values, its forward and backward, and the memory they work in.
#include <cmath>
#include <string>
#include <type_traits>
#include <vector>

#include "accrete/wiring/execute.hpp"
#include "accrete/wiring/expression.hpp"
#include "accrete/wiring/layer_equation.hpp"
#include "accrete/wiring/program.hpp"
#include "accrete/wiring/text.hpp"
#include "support/catch.hpp"
#include "support/program_trial.hpp"
#include "support/sound_run.hpp"

namespace {

using namespace accrete::wiring;
using test::trial;

struct deep {
  static constexpr char const* name = "(2L)^(1/4)";
  static double at(site s) { return std::pow(2.0 * s.depth, 0.25); }
};
struct by_root {
  static constexpr char const* name = "1/sqrt(l+1)";
  static double at(site s) { return 1 / std::sqrt(s.layer + 1.0); }
};
struct by_root_of_two {
  static constexpr char const* name = "1/sqrt(2(l+1))";
  static double at(site s) { return 1 / std::sqrt(2.0 * (s.layer + 1)); }
};
struct lowest_quarter {
  static constexpr char const* name = "layer < L/4";
  static constexpr bool at(site s) { return s.layer < s.depth / 4; }
};

// Residual equations of the literature, as a placement would write them.
constexpr auto pre = x + f(norm(x));
constexpr auto post = norm(x + f(x));
constexpr auto peri = x + norm(f(norm(x)));
constexpr auto olmo2 = x + norm(f(x));
constexpr auto deepnorm = norm(constant<deep>{} * x + f(x));
constexpr auto lns = x + f(constant<by_root>{} * norm(x));
constexpr auto z = norm(x + attn(x));
constexpr auto hybrid = z + mlp(z);
constexpr auto span = norm(x + mlp(z));
constexpr auto o = f(x);
constexpr auto residual = streams(norm(x + o), y + o);
constexpr auto n = norm(x);
constexpr auto branch = f(norm(n + norm_<1>(y)));
constexpr auto siamese = streams(n + constant<by_root_of_two>{} * branch, y + branch);
constexpr auto ingpt = unit(x + unit(f(x)));
constexpr auto mix = by_depth<lowest_quarter>(post, pre);
constexpr auto h = x + f(norm(x));
constexpr auto pre_st = straight_through(unit(h), h);
constexpr auto s = x + f(x);
constexpr auto post_st = straight_through(s, norm(s));

template <class E>
using layer = program<decltype(layer_equation(E{}))>;

struct facts {
  int kept, rows, scratch, gains, fused;
  char const* text;
};

template <class P>
void require_facts(char const* name, facts const& expected) {
  INFO(name);
  CHECK(P::num_kept == expected.kept);
  CHECK(P::num_rows == expected.rows);
  CHECK(num_scratch<P> == expected.scratch);
  CHECK(P::num_gains == expected.gains);
  CHECK(P::num_fused == expected.fused);
  CHECK(text<P>() == expected.text);
  trial<P> t;
  t.loss();
  t.backward();
  CHECK(t.kernels.attn.forward_calls == 1);
  CHECK(t.kernels.mlp.forward_calls == 1);
  CHECK(t.kernels.attn.backward_calls == 1);
  CHECK(t.kernels.mlp.backward_calls == 1);
}

template <class P>
void require_differentiable(char const* name) {
  INFO(name << ": " << text<P>());
  trial<P> t;
  CHECK(t.gradient_error() < 1e-8);
  CHECK(t.kernels.broken_promises == 0);
}

template <class P>
void require_layer(char const* name, facts const& expected) {
  require_facts<P>(name, expected);
  test::require_sound_run<P>(name);
  require_differentiable<P>(name);
}

template <class P>
void require_edge(char const* name) {
  test::require_sound_run<P>(name);
  require_differentiable<P>(name);
}

}  // namespace

TEST_CASE("wiring program has the facts and the gradients of each known equation", "[wiring][program][grad]") {
  require_layer<layer<decltype(pre)>>("pre", {2, 2, 3, 2, 1, "a = x + attn(norm(x)); a + mlp(norm(a))"});
  require_layer<layer<decltype(post)>>("post", {3, 2, 3, 2, 2, "a = norm(x + attn(x)); norm(a + mlp(a))"});
  require_layer<layer<decltype(peri)>>("peri",
                                       {3, 4, 4, 4, 1, "a = x + norm(attn(norm(x))); a + norm(mlp(norm(a)))"});
  require_layer<layer<decltype(olmo2)>>("olmo2", {3, 2, 3, 2, 0, "a = x + norm(attn(x)); a + norm(mlp(a))"});
  require_layer<layer<decltype(deepnorm)>>(
      "deepnorm", {3, 2, 4, 2, 2, "a = norm((2L)^(1/4) * x + attn(x)); norm((2L)^(1/4) * a + mlp(a))"});
  require_layer<layer<decltype(lns)>>(
      "lns", {2, 2, 3, 2, 1, "a = x + attn(1/sqrt(l+1) * norm(x)); a + mlp(1/sqrt(l+1) * norm(a))"});
  require_layer<layer<decltype(hybrid)>>("hybrid", {2, 1, 3, 1, 1, "a = norm(x + attn(x)); a + mlp(a)"});
  require_layer<layer<decltype(span)>>("span", {3, 2, 3, 2, 2, "norm(x + mlp(norm(x + attn(x))))"});
  require_layer<layer<decltype(residual)>>(
      "residual", {3, 2, 4, 2, 2, "a = attn(x); b = norm(x + a); c = mlp(b); norm(b + c), y + a + c"});
  require_layer<layer<decltype(siamese)>>(
      "siamese", {4, 6, 5, 6, 4,
                  "a = norm(x); b = attn(norm(a + norm(y))); c = norm(a + 1/sqrt(2(l+1)) * b); d = y + b; "
                  "e = mlp(norm(c + norm(d))); c + 1/sqrt(2(l+1)) * e, d + e"});
  require_layer<layer<decltype(ingpt)>>("ingpt",
                                        {3, 4, 4, 0, 0, "a = unit(x + unit(attn(x))); unit(a + unit(mlp(a)))"});
}

TEST_CASE("wiring backward stays in one buffer where each sum's gradient is read before it is added to",
          "[wiring][program]") {
  STATIC_REQUIRE(backward_plan_of<layer<decltype(pre)>>.in_place);
  STATIC_REQUIRE(backward_plan_of<layer<decltype(peri)>>.in_place);
  STATIC_REQUIRE(backward_plan_of<layer<decltype(olmo2)>>.in_place);
  STATIC_REQUIRE(!backward_plan_of<layer<decltype(post)>>.in_place);     // a norm's backward changes buffers
  STATIC_REQUIRE(!backward_plan_of<layer<decltype(hybrid)>>.in_place);   // a sublayer on the sum itself
  STATIC_REQUIRE(!backward_plan_of<layer<decltype(siamese)>>.in_place);  // two streams
}

TEST_CASE("what attention's last product gives can be restored, what the MLP gives cannot",
          "[wiring][program]") {
  STATIC_REQUIRE(layer<decltype(pre)>::num_restored == 1);   // of two: its input is the caller's
  STATIC_REQUIRE(layer<decltype(post)>::num_restored == 1);  // of three: the second sum has the MLP in it
  STATIC_REQUIRE(layer<decltype(peri)>::num_restored == 1);
  STATIC_REQUIRE(layer<decltype(hybrid)>::num_restored == 1);
  constexpr auto parallel = x + attn(norm(x)) + mlp(norm(x));  // nothing but the input is kept
  STATIC_REQUIRE(program<std::remove_const_t<decltype(parallel)>>::num_restored == 0);
}

TEST_CASE("wiring program of a choice by depth is the one of its site", "[wiring][by_depth][grad]") {
  using E = decltype(layer_equation(mix));
  auto text_at = [](site where) { return with_program(E{}, where, []<class P>(P) { return text<P>(); }); };
  CHECK(text_at({2, 12}) == text<layer<decltype(post)>>());
  CHECK(text_at({3, 12}) == text<layer<decltype(pre)>>());
  CHECK(text_at({0, 3}) == text<layer<decltype(pre)>>());
  CHECK(equation_text(E{}) ==
        "where layer < L/4: a = norm(x + attn(x)); norm(a + mlp(a)); elsewhere: a = x + attn(norm(x)); a + "
        "mlp(norm(a))");
  STATIC_REQUIRE(equation_traits<E>::num_streams == 1);
  STATIC_REQUIRE(equation_traits<E>::num_scratch == 3);
  STATIC_REQUIRE(!equation_traits<E>::one_program);
  for (site where : {site{0, 12}, site{11, 12}})
    with_program(E{}, where, []<class P>(P) { require_edge<P>("mix"); });
}

TEST_CASE("wiring straight_through has the value of one side and the gradient of the other",
          "[wiring][straight_through][grad]") {
  // Rows are counted for every norm that runs, also for those no gradient passes.
  using value_normed = layer<decltype(pre_st)>;
  require_facts<value_normed>("pre_st", {2, 4, 3, 2, 0,
                                         "a = x + attn(norm(x)); b = straight_through(unit(a), a); "
                                         "c = b + mlp(norm(b)); straight_through(unit(c), c)"});
  test::require_sound_run<value_normed>("pre_st");
  CHECK(trial<value_normed>().gradient_error() > 1e-3);

  using gradient_normed = layer<decltype(post_st)>;
  require_facts<gradient_normed>("post_st", {3, 2, 4, 2, 2,
                                             "a = x + attn(x); b = straight_through(a, norm(a)); "
                                             "c = b + mlp(b); straight_through(c, norm(c))"});
  test::require_sound_run<gradient_normed>("post_st");
  CHECK(trial<gradient_normed>().gradient_error() > 1e-3);
}

TEST_CASE("wiring straight_through gradients are the surrogate's to the last bit",
          "[wiring][straight_through]") {
  auto gradients_of = []<class E>(E) {
    trial<program<E>> t;
    t.loss();
    return t.backward();
  };
  auto value_of = []<class E>(E) { return trial<program<E>>().template forward<purpose::training>().at(0); };
  constexpr auto a = x + attn(norm(x));
  constexpr auto b = x + attn(x);

  CHECK(test::same_bits(gradients_of(straight_through(unit(a), a)), gradients_of(a)));
  CHECK(test::same_bits(value_of(straight_through(unit(a), a)), value_of(unit(a))));
  CHECK(test::same_bits(gradients_of(straight_through(b, norm(b))), gradients_of(norm(b))));
  CHECK(test::same_bits(value_of(straight_through(b, norm(b))), value_of(b)));
  CHECK(!test::same_bits(gradients_of(a), gradients_of(unit(a))));  // the comparison can fail
  // A sublayer that only the surrogate has must have run all the same: its backward reads what it kept.
  CHECK(test::same_bits(gradients_of(straight_through(x, a)), gradients_of(a)));
  CHECK(test::same_bits(value_of(straight_through(x, a)), value_of(x)));
}

TEST_CASE("wiring program runs where values, inputs and outputs coincide", "[wiring][program][grad]") {
  require_edge<program<decltype(x)>>("an output that is an input");
  require_edge<program<decltype(streams(x, x))>>("two outputs that are one input");
  require_edge<program<decltype(streams(y, x))>>("streams that change places");
  require_edge<program<decltype(streams(n, n))>>("two equal outputs");
  require_edge<program<decltype(streams(x, n, x + n, n))>>("one input, four outputs");
  require_edge<program<decltype(x + x)>>("an input added to itself");
  constexpr auto branch_of_x = attn(x);
  require_edge<program<decltype(branch_of_x + branch_of_x)>>("a value added to itself");
  require_edge<program<decltype(norm(branch_of_x + branch_of_x))>>("the same in one pass with its norm");
  require_edge<program<decltype(n + attn(n) + mlp(n))>>("a value used three times");
  require_edge<program<decltype(streams(branch_of_x, mlp(branch_of_x)))>>("a kept output");
  require_edge<program<decltype(streams(norm(z + y), z))>>("an output that others read");
  constexpr auto sum_of_all = x + attn(x) + y;
  require_edge<program<decltype(streams(norm(sum_of_all), norm_<1>(sum_of_all), unit(sum_of_all)))>>(
      "three norms of one sum, of which one is fused");
  require_edge<program<decltype(streams(norm(sum_of_all), sum_of_all))>>("a fused sum that is an output");
  constexpr constant<deep> c{};
  require_edge<program<decltype(c * (c * attn(c * x)))>>("scales on scales");
  require_edge<program<decltype(x + (attn(x) + (y + mlp(y))))>>("sums inside sums");
  require_edge<program<decltype(norm(x) + norm_<1>(x))>>("two gains on one value");
  require_edge<program<decltype(x + norm(y))>>("a readout of two streams");
}

TEST_CASE("wiring program gives zeros to an input that no gradient reaches", "[wiring][program]") {
  test::require_sound_run<program<decltype(streams(y + attn(norm(y)), y))>>(
      "a first stream that is never read");
  test::require_sound_run<program<decltype(straight_through(x + y, attn(x)))>>(
      "a stream read for its value only");
  test::require_sound_run<program<decltype(streams(straight_through(y, x), x))>>(
      "an output with another's gradient");
  test::require_sound_run<program<decltype(straight_through(x, x))>>("a value straight through itself");
  test::require_sound_run<program<decltype(straight_through(x, mlp(norm(attn(y)))))>>("a surrogate chain");
  test::require_sound_run<program<decltype(mlp(straight_through(unit(y), norm(attn(x)))))>>(
      "a sublayer's own input");

  trial<program<decltype(straight_through(x + y, attn(x)))>> t;
  t.loss();
  CHECK(t.backward().inputs.at(1) == test::numbers(test::toy_kernels::elements, 0.0));
}

TEST_CASE("wiring text says what the program does", "[wiring][text]") {
  constexpr constant<deep> c{};
  CHECK(text<program<decltype(x)>>() == "x");
  CHECK(text<program<decltype(streams(y, x))>>() == "y, x");
  CHECK(text<program<decltype(x + (y + attn(x)))>>() == "x + (y + attn(x))");
  CHECK(text<program<decltype(x + y + attn(x))>>() == "x + y + attn(x)");
  CHECK(text<program<decltype(c * (x + y))>>() == "(2L)^(1/4) * (x + y)");
  CHECK(text<program<decltype(c * norm(x + y))>>() == "(2L)^(1/4) * norm(x + y)");
  CHECK(text<program<decltype(norm(x) + norm_<1>(x))>>() == "norm(x) + norm_1(x)");
  CHECK(text<program<decltype(norm(x) + norm_<1>(y))>>() == "norm(x) + norm(y)");
}

TEST_CASE("wiring program tells its kept bytes", "[wiring][memory]") {
  // 2048 tokens of width 768 in f32: tensors of 6 MiB, statistics of 8 KiB.
  STATIC_REQUIRE(layer<decltype(pre)>::kept_bytes(2048, 768, 4, 4) == 12'599'296);
  STATIC_REQUIRE(layer<decltype(post)>::kept_bytes(2048, 768, 4, 4) == 18'890'752);
  STATIC_REQUIRE(layer<decltype(peri)>::kept_bytes(2048, 768, 4, 4) == 18'907'136);
}

// What makes the streams between the sublayers, once attention was called.
template <class E>
std::vector<op> makers_between_sublayers(E) {
  using P = layer<E>;
  std::vector<int> calls;
  for (int v = 0; v < P::size; ++v)
    if (P::at(v).code == op::apply) calls.push_back(v);
  std::vector<op> makers;
  for (int const v : values_between_sublayers<P>(E{})) {
    CHECK(v > calls.at(0));
    makers.push_back(P::at(v).code);
  }
  return makers;
}

TEST_CASE("a layer's program knows which values its streams are between sublayers", "[wiring][look]") {
  using makers = std::vector<op>;
  CHECK(makers_between_sublayers(pre) == makers{op::add});
  CHECK(makers_between_sublayers(post) == makers{op::norm});
  CHECK(makers_between_sublayers(peri) == makers{op::add});
  CHECK(makers_between_sublayers(ingpt) == makers{op::unit});
  CHECK(makers_between_sublayers(pre_st) == makers{op::through});
  CHECK(makers_between_sublayers(residual) == makers{op::norm, op::add});
  CHECK(makers_between_sublayers(hybrid).empty());  // a whole layer's equation has no such point
  using lower = layer<decltype(post)>;
  using upper = layer<decltype(pre)>;
  CHECK(values_between_sublayers<lower>(mix) == values_between_sublayers<lower>(post));
  CHECK(values_between_sublayers<upper>(mix) == values_between_sublayers<upper>(pre));
}
