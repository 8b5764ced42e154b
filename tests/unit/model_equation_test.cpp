#include <cmath>
#include <string>
#include <type_traits>
#include <vector>

#include "accrete/model/student.hpp"
#include "accrete/reference/backend.hpp"
#include "support/catch.hpp"
#include "support/step_by_hand.hpp"
#include "support/written_out.hpp"

using namespace accrete;

namespace {

using backend_type = reference::backend<double>;
using test::rows;
using test::written_out;

/// What the head reads, as the papers write it.
template <class P>
rows expected(written_out const& m, int depth) {
  rows x = m.embedded;
  rows y;
  if constexpr (std::is_same_v<P, placement::post> || std::is_same_v<P, placement::peri_embedding>)
    x = m.norm("model.entry_norm", x);
  y = x;
  for (int l = 0; l < depth; ++l) {
    auto N = [&](std::string const& name, rows const& v) { return m.norm(m.prefix(l) + name, v); };
    auto attn = [&](rows const& v) { return m.attn(l, v); };
    auto mlp = [&](rows const& v) { return m.mlp(l, v); };
    if constexpr (std::is_same_v<P, placement::pre>) {
      x = x + attn(N("input_layernorm", x));
      x = x + mlp(N("post_attention_layernorm", x));
    } else if constexpr (std::is_same_v<P, placement::post>) {
      x = N("attn_norm_0", x + attn(x));
      x = N("mlp_norm_0", x + mlp(x));
    } else if constexpr (std::is_base_of_v<placement::peri, P>) {
      x = x + N("post_attention_layernorm", attn(N("input_layernorm", x)));
      x = x + N("post_feedforward_layernorm", mlp(N("pre_feedforward_layernorm", x)));
    } else if constexpr (std::is_same_v<P, placement::olmo2>) {
      x = x + N("post_attention_layernorm", attn(x));
      x = x + N("post_feedforward_layernorm", mlp(x));
    } else if constexpr (std::is_same_v<P, placement::deepnorm>) {
      double const alpha = std::pow(2.0 * depth, 0.25);
      x = N("attn_norm_0", alpha * x + attn(x));
      x = N("mlp_norm_0", alpha * x + mlp(x));
    } else if constexpr (std::is_same_v<P, placement::hybrid>) {
      x = N("post_attention_layernorm", x + attn(x));
      x = x + mlp(x);
    } else if constexpr (std::is_same_v<P, placement::mix>) {
      if (l < depth / 4) {
        x = N("attn_norm_0", x + attn(x));
        x = N("mlp_norm_0", x + mlp(x));
      } else {
        x = x + attn(N("attn_norm_0", x));
        x = x + mlp(N("mlp_norm_0", x));
      }
    } else {
      static_assert(std::is_same_v<P, placement::residual>);
      rows const a = attn(x);
      x = N("attn_norm_0", x + a);
      rows const b = mlp(x);
      x = N("mlp_norm_0", x + b);
      y = y + a + b;
    }
  }
  if constexpr (std::is_same_v<P, placement::post> || std::is_same_v<P, placement::deepnorm>) return x;
  if constexpr (std::is_same_v<P, placement::residual>) return x + m.norm("model.norm", y);
  return m.norm("model.norm", x);
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("student computes its placement's equations as the papers write them",
                        "[model][equation][U43]", test::placements) {
  test::tiny_shape const shapes[] = {
      {.heads = 4, .kv_heads = 2},
      {.heads = 4, .kv_heads = 2, .qk_norm = true},
      {.heads = 4, .kv_heads = 2, .qkv_bias = true, .rotary = test::tiny_llama3},
      {.heads = 4, .kv_heads = 2, .qk_norm = true, .qkv_bias = true, .output_bias = true}};
  for (auto const& shape : shapes) {
    auto teacher = test::tiny_teacher<backend_type>(shape);
    student<TestType, test::joint_for<TestType>, backend_type> of(teacher, seed{42});
    test::enlarge_weights(of);
    auto const batch = test::random_batch({3, 1, 5, 2});
    test::step_by_hand d(teacher, of, batch);
    auto const hidden = d.hidden();
    written_out plain(of.config(), batch,
                      {1.0, of.config().rotary == test::tiny_llama3 ? 0.02975352506846948 : 0.1});
    plain.take(of);
    REQUIRE(plain.biases == of.active_layers() * ((shape.qkv_bias ? 3 : 0) + (shape.output_bias ? 1 : 0)));
    std::vector<double> wanted;
    for (auto const& r : expected<TestType>(plain, of.active_layers()))
      wanted.insert(wanted.end(), r.begin(), r.end());
    CAPTURE(placement::name_of<TestType>(), shape.qk_norm, shape.qkv_bias);
    CHECK(test::worst_difference({{"hidden", hidden}}, {{"hidden", wanted}}) < 1e-12);
  }
}
