#pragma once
#include <cmath>
#include <string>
#include <vector>

#include "accrete/io/model_config.hpp"
#include "accrete/model/layer.hpp"
#include "accrete/model/parameter.hpp"
#include "accrete/placement/norm_placement.hpp"
#include "accrete/wiring/layer_equation.hpp"

namespace accrete::inline v0::model {

/// Sizes and features all layers of a stack share.
struct layer_shape {
  index_t hidden = 0;
  index_t intermediate = 0;
  attention_shape attention;
  layer::features features;
  double rope_theta = 10000.0;
  double eps = 1e-6;

  layer_shape() = default;
  layer_shape(io::model_config const& c, layer::features const& has)
      : hidden(c.hidden_size),
        intermediate(c.intermediate_size),
        attention{c.num_attention_heads, c.num_key_value_heads, c.head_dim,
                  1.0 / std::sqrt(double(c.head_dim))},
        features(has),
        rope_theta(c.rope_theta),
        eps(c.rms_norm_eps) {}

  [[nodiscard]] index_t query_columns() const { return attention.heads * attention.head_dim; }
  [[nodiscard]] index_t key_columns() const { return attention.kv_heads * attention.head_dim; }
  [[nodiscard]] index_t qkv_columns() const { return query_columns() + 2 * key_columns(); }
  /// Of the first columns of q|k|v, as many as hold every group that is normalized.
  [[nodiscard]] index_t normalized_columns() const {
    if (features.head_norms.v) return qkv_columns();
    if (features.head_norms.k) return query_columns() + key_columns();
    return features.head_norms.q ? query_columns() : 0;
  }
  /// Elements of the matrices of one layer: two floating-point operations each, per token and product.
  [[nodiscard]] index_t matrix_elements() const {
    return hidden * (qkv_columns() + query_columns() + 3 * intermediate);
  }
};

/// The weights of one layer. q|k|v and gate|up are single buffers with named rows: narrow products run at a
/// fraction of a wide one's rate.
template <backend B>
struct decoder_layer {
  wiring::site where;
  parameter<B> qkv;                     // [(heads + 2 kv_heads) * head_dim, D]
  parameter<B> output;                  // [D, heads * head_dim]
  parameter<B> qkv_bias, output_bias;   // [q|k|v, 1] and [D, 1], where the layer has them
  parameter<B> gate_up;                 // [2 F, D]
  parameter<B> down;                    // [D, F]
  parameter<B> q_norm, k_norm, v_norm;  // [1, head_dim], where the layer has them
  std::vector<parameter<B>> gains;      // [1, D], in the wiring's order

  /// Allocates; weights are zero. `norm_names` are the wiring's gains, in its order, without ".weight".
  decoder_layer(layer_shape const& shape, wiring::site at, std::vector<std::string> const& norm_names,
                weight_use use = weight_use::trained)
      : where(at) {
    std::string const here = "model.layers." + std::to_string(at.layer) + ".";
    std::string const attn = here + "self_attn.";
    std::string const mlp = here + "mlp.";
    using enum parameter_role;
    qkv = {matrix,
           named_rows({{attn + "q_proj.weight", shape.query_columns()},
                       {attn + "k_proj.weight", shape.key_columns()},
                       {attn + "v_proj.weight", shape.key_columns()}}),
           shape.hidden, use};
    output = {matrix, named_rows({{attn + "o_proj.weight", shape.hidden}}), shape.query_columns(), use};
    if (shape.features.qkv_bias)
      qkv_bias = {bias,
                  named_rows({{attn + "q_proj.bias", shape.query_columns()},
                              {attn + "k_proj.bias", shape.key_columns()},
                              {attn + "v_proj.bias", shape.key_columns()}}),
                  1};
    if (shape.features.output_bias) output_bias = {bias, named_rows({{attn + "o_proj.bias", shape.hidden}}), 1};
    gate_up = {matrix,
               named_rows({{mlp + "gate_proj.weight", shape.intermediate},
                           {mlp + "up_proj.weight", shape.intermediate}}),
               shape.hidden, use};
    down = {matrix, named_rows({{mlp + "down_proj.weight", shape.hidden}}), shape.intermediate, use};
    auto head_gain = [&](bool wanted, char const* name) {
      return wanted ? parameter<B>(norm_gain, named_rows({{attn + name, 1}}), shape.attention.head_dim)
                    : parameter<B>();
    };
    q_norm = head_gain(shape.features.head_norms.q, "q_norm.weight");
    k_norm = head_gain(shape.features.head_norms.k, "k_norm.weight");
    v_norm = head_gain(shape.features.head_norms.v, "v_norm.weight");
    for (auto const& name : norm_names)
      gains.emplace_back(norm_gain, named_rows({{here + name + ".weight", 1}}), shape.hidden);
  }

  template <class Visit>
  void parameters(Visit&& visit) {
    for (auto* p : {&qkv, &qkv_bias, &output, &output_bias, &gate_up, &down, &q_norm, &k_norm, &v_norm})
      if (p->exists()) visit(*p);
    for (auto& g : gains) visit(g);
  }
};

/// A layer of a student: weights by the placement's rule from streams keyed by creation id, gains at 1, biases
/// at 0.
template <norm_placement P, backend B>
decoder_layer<B> fresh_layer(B const& ctx, layer_shape const& shape, wiring::site where, seed s) {
  decoder_layer<B> made(shape, where, placement::norm_names_at<P>(where));
  auto draw = [&](parameter<B>& p, std::size_t part, placement::weight_role role, char const* purpose) {
    double const std = placement::init_std<P>(role, p.value.extent(1), p.parts[part].rows, where);
    draw_normal(ctx, p, part, std, s, purpose, where.layer);
  };
  using enum placement::weight_role;
  draw(made.qkv, 0, query, "q_proj");
  draw(made.qkv, 1, key, "k_proj");
  draw(made.qkv, 2, value, "v_proj");
  draw(made.output, 0, attention_output, "o_proj");
  draw(made.gate_up, 0, gate, "gate_proj");
  draw(made.gate_up, 1, up, "up_proj");
  draw(made.down, 0, down, "down_proj");
  made.parameters([&](parameter<B>& p) {
    if (p.role == parameter_role::norm_gain) fill(ctx, p, 1.0);
  });
  return made;
}

}  // namespace accrete::inline v0::model
