#pragma once
#include <array>
#include <cstddef>
#include <type_traits>
#include <vector>

#include "accrete/model/layer_memory.hpp"
#include "accrete/model/token_batch.hpp"
#include "accrete/wiring/expression.hpp"

namespace accrete::inline v0::model {
namespace detail {

// Members of the same name would hide the backend's functions from argument-dependent lookup.
template <class B, class... A>
void call_add(B const& ctx, A const&... a) {
  add(ctx, a...);
}
template <class B, class... A>
void call_scale(B const& ctx, A const&... a) {
  scale(ctx, a...);
}
template <class B, class... A>
void call_accumulate(B const& ctx, A const&... a) {
  accumulate(ctx, a...);
}
template <class B, class Matrix>
void call_zero(B const& ctx, Matrix const& m) {
  zero(ctx, m.flat());
}
template <class B, class Matrix>
void copy_rows(B const& ctx, Matrix const& from, Matrix const& to) {
  scale(ctx, 1.0, from, to);  // unlike `copy`, it takes blocks of columns
}

}  // namespace detail

/// Position tables of the rotation: [positions, head_dim / 2].
template <backend B>
struct rotary_tables {
  tensor<typename B::real, 2, typename B::space> cosines, sines;
};

/// Everything one layer's run touches. `num_tokens` rows of every buffer are in use.
template <backend B>
struct layer_run {
  B const& ctx;
  layer_shape const& shape;
  decoder_layer<B>& weights;
  layer_memory<B> const& memory;
  layer_scratch<B> const& scratch;
  rotary_tables<B> const& rotary;
  token_batch<typename B::space> const& batch;

  [[nodiscard]] index_t num_tokens() const { return batch.num_tokens(); }
  template <class T>
  [[nodiscard]] view<T, 2, typename B::space> rows(view<T, 2, typename B::space> m) const {
    return m.slice(0, num_tokens());
  }
};

/// q, k or v: its columns of the fused buffer and of the per-head statistics, and its gain if it has one.
template <backend B>
struct head_group {
  index_t first_column, columns, first_head, heads;
  parameter<B>* gain;
  [[nodiscard]] matrix<B> of(matrix<B> const& m) const { return m.column_slice(first_column, columns); }
  [[nodiscard]] real_matrix<B> statistics(real_matrix<B> const& m) const {
    return m.column_slice(first_head, heads);
  }
};
template <backend B>
std::array<head_group<B>, 3> head_groups(layer_run<B> const& r) {
  auto const& a = r.shape.attention;
  index_t const q = r.shape.query_columns();
  index_t const k = r.shape.key_columns();
  auto gain = [](parameter<B>& p) { return p.exists() ? &p : nullptr; };
  return {{{0, q, 0, a.heads, gain(r.weights.q_norm)},
           {q, k, a.heads, a.kv_heads, gain(r.weights.k_norm)},
           {q + k, k, a.heads + a.kv_heads, a.kv_heads, gain(r.weights.v_norm)}}};
}

/// x [T, D] -> out [T, D]: projection, head norms, rotation, causal attention inside each document, projection.
template <backend B>
void attention_forward(layer_run<B> const& r, matrix<B> const& x, matrix<B> const& out) {
  auto const qkv = r.rows(r.memory.qkv);
  auto const heads = r.rows(r.memory.heads);
  linear(r.ctx, x, r.weights.qkv.value.view(), qkv, store::replace);
  if (r.weights.qkv_bias.exists()) add_bias(r.ctx, r.weights.qkv_bias.as_vector(), qkv);
  auto const groups = head_groups(r);
  for (auto const& g : groups) {
    if (g.gain != nullptr)
      head_rms_norm(r.ctx, g.of(qkv), g.gain->as_vector(), r.shape.eps, g.of(heads),
                    g.statistics(r.rows(r.memory.head_rstd)));
    else if (r.shape.any_head_norm())
      detail::copy_rows(r.ctx, g.of(qkv), g.of(heads));
  }
  auto const& [q, k, v] = groups;
  rotary(r.ctx, q.of(heads), r.batch.positions, r.rotary.cosines.view(), r.rotary.sines.view(),
         rotation::forward);
  rotary(r.ctx, k.of(heads), r.batch.positions, r.rotary.cosines.view(), r.rotary.sines.view(),
         rotation::forward);
  attention(r.ctx, q.of(heads), k.of(heads), v.of(heads), r.batch.offsets, r.shape.attention,
            r.rows(r.memory.attended), r.rows(r.memory.log_sum_exp));
  linear(r.ctx, r.rows(r.memory.attended), r.weights.output.value.view(), out, store::replace);
  if (r.weights.output_bias.exists()) add_bias(r.ctx, r.weights.output_bias.as_vector(), out);
}

template <backend B>
void attention_backward_pass(layer_run<B> const& r, matrix<B> const& x, matrix<B> const& dout,
                             matrix<B> const& dx, store how) {
  auto const qkv = r.rows(r.memory.qkv);
  auto const heads = r.rows(r.memory.heads);
  auto const attended = r.rows(r.memory.attended);
  auto const dattended = r.rows(r.scratch.dattended);
  auto const dheads = r.rows(r.scratch.dheads);
  auto const dqkv = r.rows(r.scratch.dqkv);
  auto& w = r.weights;
  if (w.output.trainable()) linear_backward_weight(r.ctx, dout, attended, w.output.gradient.view(), store::add);
  if (w.output_bias.trainable()) add_bias_backward(r.ctx, dout, w.output_bias.vector_gradient());
  linear_backward_input(r.ctx, dout, w.output.value.view(), dattended, store::replace);
  auto const groups = head_groups(r);
  auto const& [q, k, v] = groups;
  attention_backward(r.ctx, q.of(heads), k.of(heads), v.of(heads), r.batch.offsets, r.shape.attention, attended,
                     r.rows(r.memory.log_sum_exp), dattended, q.of(dheads), k.of(dheads), v.of(dheads));
  rotary(r.ctx, q.of(dheads), r.batch.positions, r.rotary.cosines.view(), r.rotary.sines.view(),
         rotation::inverse);
  rotary(r.ctx, k.of(dheads), r.batch.positions, r.rotary.cosines.view(), r.rotary.sines.view(),
         rotation::inverse);
  for (auto const& g : groups) {
    if (g.gain != nullptr)
      head_rms_norm_backward(r.ctx, g.of(qkv), g.gain->as_vector(), g.statistics(r.rows(r.memory.head_rstd)),
                             g.of(dheads), g.of(dqkv), g.gain->vector_gradient(), store::replace);
    else if (r.shape.any_head_norm())
      detail::copy_rows(r.ctx, g.of(dheads), g.of(dqkv));
  }
  if (w.qkv.trainable()) linear_backward_weight(r.ctx, dqkv, x, w.qkv.gradient.view(), store::add);
  if (w.qkv_bias.trainable()) add_bias_backward(r.ctx, dqkv, w.qkv_bias.vector_gradient());
  linear_backward_input(r.ctx, dqkv, w.qkv.value.view(), dx, how);
}

/// x [T, D] -> down(silu(gate x) * up x) [T, D]
template <backend B>
void mlp_forward(layer_run<B> const& r, matrix<B> const& x, matrix<B> const& out) {
  auto const gate_up = r.rows(r.memory.gate_up);
  auto const activated = r.rows(r.scratch.activated);
  linear(r.ctx, x, r.weights.gate_up.value.view(), gate_up, store::replace);
  swiglu(r.ctx, gate_up, activated);
  linear(r.ctx, activated, r.weights.down.value.view(), out, store::replace);
}

template <backend B>
void mlp_backward_pass(layer_run<B> const& r, matrix<B> const& x, matrix<B> const& dout, matrix<B> const& dx,
                       store how) {
  auto const gate_up = r.rows(r.memory.gate_up);
  auto const activated = r.rows(r.scratch.activated);
  auto const dactivated = r.rows(r.scratch.dactivated);
  auto const dgate_up = r.rows(r.scratch.dgate_up);
  auto& w = r.weights;
  if (w.down.trainable()) {
    swiglu(r.ctx, gate_up, activated);  // made again rather than kept
    linear_backward_weight(r.ctx, dout, activated, w.down.gradient.view(), store::add);
  }
  linear_backward_input(r.ctx, dout, w.down.value.view(), dactivated, store::replace);
  swiglu_backward(r.ctx, gate_up, dactivated, dgate_up);
  if (w.gate_up.trainable()) linear_backward_weight(r.ctx, dgate_up, x, w.gate_up.gradient.view(), store::add);
  linear_backward_input(r.ctx, dgate_up, w.gate_up.value.view(), dx, how);
}

/// A backend's operations under the names wiring::execution calls, for values of rank 2.
template <backend B>
struct equation_kernels {
  B const& ctx;
  double eps;
  std::vector<parameter<B>>& gains;

  void add(matrix<B> a, matrix<B> b, matrix<B> out) { detail::call_add(ctx, a, b, out); }
  void scale(double c, matrix<B> a, matrix<B> out) { detail::call_scale(ctx, c, a, out); }
  void accumulate(double c, matrix<B> a, matrix<B> out) { detail::call_accumulate(ctx, c, a, out); }
  void copy(matrix<B> a, matrix<B> out) { detail::copy_rows(ctx, a, out); }
  void zero(matrix<B> out) { detail::call_zero(ctx, out); }
  void norm(int gain, matrix<B> a, matrix<B> out, real_vector<B> row) {
    rms_norm(ctx, a, gains[std::size_t(gain)].as_vector(), eps, out, row);
  }
  void add_norm(matrix<B> a, matrix<B> b, matrix<B> sum, int gain, matrix<B> out, real_vector<B> row) {
    add_rms_norm(ctx, a, b, sum, gains[std::size_t(gain)].as_vector(), eps, out, row);
  }
  void norm_backward(int gain, matrix<B> a, real_vector<B> row, matrix<B> d, matrix<B> da, store how) {
    auto& g = gains[std::size_t(gain)];
    rms_norm_backward(ctx, a, g.as_vector(), row, d, da, g.vector_gradient(), how);
  }
  void unit(matrix<B> a, matrix<B> out, real_vector<B> row) { rms_norm(ctx, a, vector<B>{}, eps, out, row); }
  void unit_backward(matrix<B> a, real_vector<B> row, matrix<B> d, matrix<B> da, store how) {
    rms_norm_backward(ctx, a, vector<B>{}, row, d, da, vector<B>{}, how);
  }
};

/// The same with the sublayers of one layer.
template <backend B>
struct layer_kernels : equation_kernels<B> {
  layer_run<B> const& run;

  explicit layer_kernels(layer_run<B> const& r)
      : equation_kernels<B>{r.ctx, r.shape.eps, r.weights.gains}, run(r) {}

  template <class Sublayer>
  void apply(matrix<B> x, matrix<B> out) {
    if constexpr (std::is_same_v<Sublayer, wiring::attention>)
      attention_forward(run, x, out);
    else
      mlp_forward(run, x, out);
  }
  template <class Sublayer>
  void apply_backward(matrix<B> x, matrix<B> dout, matrix<B> dx, store how) {
    if constexpr (std::is_same_v<Sublayer, wiring::attention>)
      attention_backward_pass(run, x, dout, dx, how);
    else
      mlp_backward_pass(run, x, dout, dx, how);
  }
};

}  // namespace accrete::inline v0::model
