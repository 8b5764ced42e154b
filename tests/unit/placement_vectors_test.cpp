// Every shipped placement against numbers worked out apart from the library (plain f64 arithmetic; gradients by
// dual numbers), on both backends. Attention and MLP are affine maps here.
#include <cmath>
#include <vector>

#include "accrete/cpu/backend.hpp"
#include "accrete/placement/deepnorm.hpp"
#include "accrete/placement/hybrid.hpp"
#include "accrete/placement/mix.hpp"
#include "accrete/placement/olmo2.hpp"
#include "accrete/placement/peri.hpp"
#include "accrete/placement/post.hpp"
#include "accrete/placement/pre.hpp"
#include "accrete/placement/residual.hpp"
#include "accrete/reference/backend.hpp"
#include "support/affine_stack.hpp"
#include "support/catch.hpp"

namespace {

namespace placement = accrete::placement;
namespace wiring = accrete::wiring;
using numbers = std::vector<double>;

// The expected numbers have 7 decimals.
void require_equal(char const* name, numbers const& got, numbers const& expected, double tolerance = 6e-8) {
  INFO(name);
  REQUIRE(got.size() == expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    INFO("element " << i << ": got " << got[i] << ", expected " << expected[i]);
    CHECK(std::abs(got[i] - expected[i]) < tolerance);
  }
}
void require_equal(char const* name, test::vectors const& got, numbers const& out, numbers const& gradient) {
  require_equal(name, got.out, out);
  require_equal(name, got.gradient, gradient);
}

// P's equation for attention alone.
template <class P>
auto attention_equation() {
  using root = typename wiring::program<std::remove_cvref_t<decltype(P::wiring)>>::root;
  return wiring::detail::outputs_of(wiring::detail::bind_all<wiring::attention>(
      typename root::operands{}, wiring::list<wiring::stream<0>>{}));
}
// One layer without ends.
template <class P>
struct no_ends : P {
  static constexpr auto boundary = placement::boundary::none;
};

// M v + b and M^T v + b: the bias and the asymmetry tell apart what a multiple of the identity cannot.
test::affine_map const attn(4, {.5, -.25, 0, .25, .25, .5, -.25, 0, 0, .25, .5, -.25, -.25, 0, .25, .5},
                            {.1, -.2, .3, 0});
test::affine_map const mlp(4, {.5, .25, 0, -.25, -.25, .5, .25, 0, 0, -.25, .5, .25, .25, 0, -.25, .5},
                           {.1, -.2, .3, 0});
numbers const x{1, 2, 3, 4};
numbers const upstream{1, -1, 2, 0.5};

template <class B>
test::affine_stack<B> affine() {
  return {attn, mlp, x, upstream};
}

}  // namespace

TEMPLATE_TEST_CASE("placement equations of one sublayer give the known numbers", "[placement][vectors]",
                   accrete::reference::backend<double>, accrete::cpu::backend<double>) {
  auto stack = affine<TestType>();
  auto one = [&]<class P>(P, int depth = 1) {
    return stack.equation(attention_equation<P>(), {0, depth});
  };
  require_equal("post", one(placement::post{}), {0.5004257, 0.5480853, 1.0246812, 1.5489367},
                {0.1853203, -0.4555199, 0.5086667, -0.2434401});
  require_equal("pre", one(placement::pre{}), {1.4651484, 1.9825742, 3.6651484, 4.9128709},
                {1.0000000, -1.1825742, 2.3651484, 0.3174258});
  require_equal("peri", one(placement::peri{}), {1.7615100, 1.9714716, 4.0889367, 5.4944917},
                {1.1031318, -1.1301639, 2.3934829, 0.2441868});
  require_equal("olmo2", one(placement::olmo2{}), {1.7237469, 2.1973855, 3.8553372, 5.6448792},
                {1.0822440, -1.2307103, 2.5073491, 0.1026655});
  require_equal("deepnorm of 9 layers", one(placement::deepnorm{}, 9),
                {0.4459853, 0.6237952, 1.0556660, 1.5157658}, {0.2211274, -0.4921320, 0.4977161, -0.2086445});
}

TEMPLATE_TEST_CASE("placement equations of one layer give the known numbers", "[placement][vectors]",
                   accrete::reference::backend<double>, accrete::cpu::backend<double>) {
  auto stack = affine<TestType>();
  numbers const post_out{0.3780317, 0.4742142, 1.3141358, 1.3803115};
  numbers const post_gradient{0.2419575, -0.4585098, 0.3645237, -0.1404579};
  numbers const pre_out{1.5651484, 2.2491658, 4.7416921, 5.4900034};
  numbers const pre_gradient{1.2308526, -1.5415605, 2.4733830, 0.3198503};
  require_equal("post", stack.template stack<no_ends<placement::post>>(1, 1), post_out, post_gradient);
  require_equal("pre", stack.template stack<no_ends<placement::pre>>(1, 1), pre_out, pre_gradient);
  require_equal("mix, lowest quarter", stack.template stack<no_ends<placement::mix>>(1, 4), post_out,
                post_gradient);
  require_equal("mix, above", stack.template stack<no_ends<placement::mix>>(1, 3), pre_out, pre_gradient);
  require_equal("hybrid", stack.template stack<no_ends<placement::hybrid>>(1, 1),
                {0.6004257, 0.7531918, 2.0872347, 2.1923412}, {0.3806373, -0.8203671, 0.6530359, -0.2381204});
  require_equal("residual, as the head reads it", stack.template stack<placement::residual>(1, 1),
                {0.8395288, 0.9997139, 2.4390460, 2.8787933}, {0.4405723, -0.9302429, 0.8139041, -0.3657637});
}

TEMPLATE_TEST_CASE("placement stacks of three layers between their ends give the known numbers",
                   "[placement][vectors][boundary]", accrete::reference::backend<double>,
                   accrete::cpu::backend<double>) {
  auto stack = affine<TestType>();
  require_equal("post", stack.template stack<placement::post>(3, 3),
                {0.3506886, -0.2001294, 1.7110985, 0.9534714}, {0.1759007, -0.1646794, 0.0935546, -0.0318015});
  require_equal("post without ends", stack.template stack<no_ends<placement::post>>(3, 3),
                {0.3533373, -0.1403560, 1.6792892, 1.0175660}, {0.1823297, -0.1947836, 0.1140553, -0.0477588});
  require_equal("pre", stack.template stack<placement::pre>(3, 3), {0.4491559, 0.3809711, 1.3668624, 1.3359668},
                {0.2012329, -0.4271414, 0.2967637, -0.1857720});
  require_equal("peri", stack.template stack<placement::peri>(3, 3),
                {0.4694536, 0.2664283, 1.4205403, 1.3002671}, {0.1909807, -0.3546290, 0.2416866, -0.1744559});
  require_equal("peri with a norm on the embedding", stack.template stack<placement::peri_embedding>(3, 3),
                {0.4996638, -0.0042658, 1.5097402, 1.2128489}, {0.1630892, -0.2206855, 0.2122756, -0.0896362});
  require_equal("olmo2", stack.template stack<placement::olmo2>(3, 3),
                {0.3943479, 0.5476662, 1.1895092, 1.4593216}, {0.2290776, -0.4989569, 0.3905676, -0.2187222});
  require_equal("deepnorm", stack.template stack<placement::deepnorm>(3, 3),
                {0.4107301, 0.0810531, 1.5792548, 1.1535534}, {0.1923026, -0.2830255, 0.2052086, -0.0764193});
  // One layer of three is below the boundary where the plan ends at four.
  require_equal("mix", stack.template stack<placement::mix>(3, 4),
                {0.4544338, -0.0091391, 1.5399611, 1.1924455}, {0.1650070, -0.2497949, 0.2056541, -0.0910312});
  require_equal("hybrid", stack.template stack<placement::hybrid>(3, 3),
                {0.3469426, -0.0687307, 1.6340263, 1.0976634}, {0.1947953, -0.2235976, 0.1445211, -0.0619717});
  require_equal("residual", stack.template stack<placement::residual>(3, 3),
                {0.8233248, 0.1238586, 3.0129507, 2.4070442}, {0.3515624, -0.5786578, 0.4154659, -0.2572155});
}

TEMPLATE_TEST_CASE("placement equations over multiples of the identity give the numbers done by hand",
                   "[placement][vectors]", accrete::reference::backend<double>, accrete::cpu::backend<double>) {
  test::affine_map const half(4, {.5, 0, 0, 0, 0, .5, 0, 0, 0, 0, .5, 0, 0, 0, 0, .5}, {0, 0, 0, 0});
  test::affine_map const quarter(4, {.25, 0, 0, 0, 0, .25, 0, 0, 0, 0, .25, 0, 0, 0, 0, .25}, {0, 0, 0, 0});
  test::affine_stack<TestType> stack(half, quarter, x, upstream);
  auto one = [&]<class P>(P) { return stack.equation(attention_equation<P>(), {0, 9}).out; };
  auto layer = [&]<class P>(P) { return stack.template stack<P>(1, 1).out; };
  numbers const unit{0.3651484, 0.7302967, 1.0954451, 1.4605935};
  require_equal("post", one(placement::post{}), unit);
  require_equal("deepnorm", one(placement::deepnorm{}), unit);
  require_equal("post layer", layer(no_ends<placement::post>{}), unit);
  require_equal("pre", one(placement::pre{}), {1.1825742, 2.3651484, 3.5477226, 4.7302967});
  require_equal("peri", one(placement::peri{}), {1.3651484, 2.7302967, 4.0954451, 5.4605935});
  require_equal("olmo2", one(placement::olmo2{}), {1.3651484, 2.7302967, 4.0954451, 5.4605935});
  require_equal("hybrid layer", layer(no_ends<placement::hybrid>{}),
                {0.4564355, 0.9128709, 1.3693064, 1.8257419});
  require_equal("pre layer", layer(no_ends<placement::pre>{}), {1.2738613, 2.5477226, 3.8215838, 5.0954451});
  require_equal("residual layer", layer(placement::residual{}), {0.7302967, 1.4605935, 2.1908902, 2.9211870});
}

// U43: the residual taken from the wrong place. f(v) = 2 v + 1 tells the mistakes from the methods.
TEMPLATE_TEST_CASE("placement residuals leave from the right place", "[placement][vectors][U43]",
                   accrete::reference::backend<double>, accrete::cpu::backend<double>) {
  test::affine_map const f(2, {2, 0, 0, 2}, {1, 1});
  test::affine_stack<TestType> stack(f, f, {1, 3}, {1, 1});
  auto one = [&](auto equation) { return stack.equation(equation).out; };
  double const decimals = 6e-7;
  require_equal("pre", one(attention_equation<placement::pre>()), {2.894427, 6.683282}, decimals);
  require_equal("post", one(attention_equation<placement::post>()), {.525226, 1.313064}, decimals);
  require_equal("peri", one(attention_equation<placement::peri>()), {1.646833, 4.257620}, decimals);

  // The mistakes, as equations: that these are other numbers is what makes the three above a test.
  using wiring::norm, wiring::attn;
  require_equal("norm(f(x)) + x", one(norm(attn(wiring::x)) + wiring::x), {1.557086, 4.299867}, decimals);
  require_equal("f(norm(x) + x)", one(attn(norm(wiring::x) + wiring::x)), {3.894427, 9.683282}, decimals);
  require_equal("norm(x) + f(norm(x))", one(norm(wiring::x) + attn(norm(wiring::x))), {2.341641, 5.024922},
                decimals);

  // A pre-norm stream is never normalized: every placement that ends in a sum has a norm before the head.
  STATIC_REQUIRE(wiring::program<decltype(placement::boundary::final_norm.readout)>::num_gains == 1);
  STATIC_REQUIRE(std::is_same_v<decltype(placement::pre::boundary), decltype(placement::boundary::final_norm)>);
}
