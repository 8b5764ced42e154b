#include <map>
#include <set>
#include <string>
#include <tuple>
#include <type_traits>
#include <typeindex>

#include "accrete/cpu/backend.hpp"
#include "accrete/growth/curriculum.hpp"
#include "accrete/growth/freeze.hpp"
#include "accrete/growth/joint.hpp"
#include "accrete/model/student.hpp"
#include "accrete/reference/backend.hpp"
#include "support/catch.hpp"
#include "support/tiny_model.hpp"

using namespace accrete;

namespace {

using qk_norm = layer::decoder<layer::grouped_query<layer::qk_norm::per_head>>;
using schedules =
    std::tuple<growth::joint<3, 3>, growth::joint<9, 1>, growth::joint<3, 3>::restarted<2>,
               growth::joint<3, 3>::restarted<3>,
               growth::joint<3, 3>::restarted<2, growth::optimizer_state::reset>, growth::curriculum<3, 3>,
               growth::curriculum<9, 1>, growth::curriculum<3, 3, growth::data_order::reset>,
               growth::freeze<3, 3>, growth::freeze<3, 3>::strict>;
using backends = std::tuple<reference::backend<double>, cpu::backend<float>, cpu::backend<double>>;
using layers = std::tuple<layer::like_teacher, layer::decoder<>, qk_norm>;

template <class... T, class F>
void each(std::tuple<T...>*, F&& visit) {
  (visit(std::type_identity<T>{}), ...);
}
template <class List, class F>
void each(F&& visit) {
  each(static_cast<List*>(nullptr), visit);
}

template <class S>
using stack_under = typename student<placement::pre, S, reference::backend<double>>::stack_type;
template <class... S>
constexpr bool share_one_stack(std::tuple<S...>*) {
  using first = stack_under<std::tuple_element_t<0, std::tuple<S...>>>;
  return (std::is_same_v<stack_under<S>, first> && ...);
}

}  // namespace

TEST_CASE("every placement, schedule, backend and layer makes a student type of its own", "[model][types]") {
  STATIC_REQUIRE(std::tuple_size_v<schedules> == 10);
  std::set<std::type_index> types;
  each<test::placements>([&]<class P>(std::type_identity<P>) {
    each<schedules>([&]<class S>(std::type_identity<S>) {
      each<backends>([&]<class B>(std::type_identity<B>) {
        each<layers>([&]<class L>(std::type_identity<L>) {
          types.insert(typeid(std::type_identity<student<P, S, B, L>>));
        });
      });
    });
  });
  CHECK(types.size() == std::tuple_size_v<test::placements> * 10 * 3 * 3);
  using of = student<placement::pre, growth::joint<3, 3>, cpu::backend<float>>;
  STATIC_REQUIRE(
      std::is_same_v<of,
                     student<placement::pre, growth::joint<3, 3>, cpu::backend<float>, layer::like_teacher>>);
  STATIC_REQUIRE_FALSE(std::is_same_v<of, student<placement::post, growth::joint<3, 3>, cpu::backend<float>>>);
  STATIC_REQUIRE_FALSE(
      std::is_same_v<of, student<placement::pre, growth::curriculum<3, 3>, cpu::backend<float>>>);
}

TEST_CASE("students of ten schedules share one stack of layers", "[model][types]") {
  using B = reference::backend<double>;
  using joint = growth::joint<3, 3>;
  using stack = model::block_stack<placement::pre, B>;
  STATIC_REQUIRE(share_one_stack(static_cast<schedules*>(nullptr)));
  STATIC_REQUIRE(std::is_same_v<student<placement::pre, joint, B>::stack_type, stack>);
  STATIC_REQUIRE(std::is_same_v<student<placement::pre, joint, B, qk_norm>::stack_type, stack>);
  STATIC_REQUIRE_FALSE(std::is_same_v<student<placement::post, joint, B>::stack_type, stack>);
  STATIC_REQUIRE_FALSE(
      std::is_same_v<student<placement::pre, joint, reference::backend<float>>::stack_type, stack>);
}

TEST_CASE("a student is named by its placement and its schedule", "[model][types]") {
  using B = reference::backend<double>;
  CHECK(student<placement::post, growth::curriculum<3, 3>, B>::configuration_name() == "post, grow");
  CHECK(student<placement::pre, growth::joint<3, 3>::restarted<2>, B>::configuration_name() == "pre, joint x2");
}

TEST_CASE("student says where its layers differ from the teacher's", "[model][types]") {
  io::model_config plain;
  io::model_config full;
  full.qk_norm = full.qkv_bias = full.output_bias = true;
  full.rotary = layer::rotary::llama3::scaling;
  using layer::difference_from;
  CHECK(difference_from(plain, {}).empty());
  CHECK(difference_from(full, layer::like_teacher::of(full)).empty());
  CHECK(difference_from(plain, {{true, true, true}, false, false, {}}) ==
        "head norms: q, k, v (the teacher's: none)");
  CHECK(
      difference_from(full, {}) ==
      "head norms: none (the teacher's: q, k); biases: none (the teacher's: q, k, v, output); rotation: plain "
      "(the teacher's: llama3, factor 8 (1 to 4 of 8192))");
}

namespace {
struct slow : layer::rotary::llama3 {  // Llama 3.2's
  static constexpr char const* name = "slow";
  static constexpr io::rotary_scaling scaling{io::rotary_kind::llama3, 32, 1, 4, 8192};
};
}  // namespace

TEST_CASE("layer slots that are named win over the teacher's file", "[model][types]") {
  using B = reference::backend<double>;
  using all =
      layer::decoder<layer::grouped_query<layer::qk_norm::per_head, layer::rotary::llama3, layer::bias::qkvo>>;
  using two = layer::decoder<layer::grouped_query<layer::qk_norm::none, slow, layer::bias::qkv>>;
  using plain =
      layer::decoder<layer::grouped_query<layer::qk_norm::none, layer::rotary::half_split, layer::bias::none>>;
  using normed = layer::decoder<layer::grouped_query<layer::qk_norm::per_head>>;
  CHECK(plain::name == std::string("decoder<no qk_norm, half_split, no bias>"));
  CHECK(normed::name == std::string("decoder<qk_norm per head, like_teacher, like_teacher>"));
  CHECK(all::name == std::string("decoder<qk_norm per head, llama3, qkvo bias>"));
  CHECK(two::name == std::string("decoder<no qk_norm, slow, qkv bias>"));
  auto t = test::tiny_teacher<B>({.qkv_bias = true, .rotary = test::tiny_llama3});
  auto const features = [&]<class Layer>(std::type_identity<Layer>) {
    student<placement::pre, growth::joint<2, 1>, B, Layer> s(t, seed{1});
    auto const& layer = s.stack().layers().front();
    CHECK(layer.qkv_bias.exists() == s.stack().shape().features.qkv_bias);
    CHECK(layer.output_bias.exists() == s.stack().shape().features.output_bias);
    return s.stack().shape().features;
  };
  CHECK(features(std::type_identity<layer::like_teacher>{}) ==
        layer::features{{}, true, false, test::tiny_llama3});
  CHECK(features(std::type_identity<layer::decoder<>>{}) ==
        layer::features{{}, true, false, test::tiny_llama3});
  CHECK(features(std::type_identity<normed>{}) ==
        layer::features{{true, true, false}, true, false, test::tiny_llama3});
  CHECK(features(std::type_identity<plain>{}) == layer::features{});
  CHECK(features(std::type_identity<all>{}) ==
        layer::features{{true, true, false}, true, true, layer::rotary::llama3::scaling});
  CHECK(features(std::type_identity<two>{}) == layer::features{{}, true, false, slow::scaling});
}

TEST_CASE("biases are named by their parts and begin at nought", "[model][types]") {
  using B = reference::backend<double>;
  auto t = test::tiny_teacher<B>({.qkv_bias = true, .output_bias = true});
  student<placement::pre, growth::joint<1, 1>, B> s(t, seed{42});
  std::map<std::string, index_t> sizes;
  visit_parameters(s, [&](std::string const& name, auto v, model::parameter_role role) {
    if (role != model::parameter_role::bias) return;
    CHECK(is_vector(role));
    CHECK(v.contiguous());
    for (index_t i = 0; i < v.size(); ++i) CHECK(v.flat()(i) == 0.0);
    sizes[name] = v.size();
  });
  std::string const here = "model.layers.0.self_attn.";
  CHECK(sizes == std::map<std::string, index_t>{{here + "q_proj.bias", 12},
                                                {here + "k_proj.bias", 4},
                                                {here + "v_proj.bias", 4},
                                                {here + "o_proj.bias", 12}});
}
