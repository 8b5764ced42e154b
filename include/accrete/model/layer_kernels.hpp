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
template <class B, class... A>
void call_copy(B const& ctx, A const&... a) {
  copy(ctx, a...);
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
  bool gate_up_again = false;  ///< the backward makes gate|up again: its buffer is all layers'

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

/// The q, k and v that attention reads: groups with a norm as normalized, the others where they were projected.
template <backend B>
std::array<matrix<B>, 3> attending(std::array<head_group<B>, 3> const& groups, matrix<B> const& heads,
                                   matrix<B> const& qkv) {
  auto pick = [&](head_group<B> const& g) { return g.of(g.gain != nullptr ? heads : qkv); };
  return {pick(groups[0]), pick(groups[1]), pick(groups[2])};
}

/// What the layer has attended -> out [T, D]: attention's last product.
template <backend B>
void attention_output(layer_run<B> const& r, real_matrix<B> const& out) {
  linear(r.ctx, r.rows(r.memory.attended), r.weights.output.operand(), out, store::replace);
  if (r.weights.output_bias.exists()) add_bias(r.ctx, r.weights.output_bias.as_vector(), out);
}

/// x [T, D] -> out [T, D]: projection, head norms, rotation, causal attention inside each document, projection.
template <backend B>
void attention_forward(layer_run<B> const& r, matrix_in<B> const& x, real_matrix<B> const& out) {
  auto const qkv = r.rows(r.memory.qkv);
  auto const heads = r.rows(r.memory.heads);
  linear(r.ctx, x, r.weights.qkv.operand(), qkv, store::replace);
  if (r.weights.qkv_bias.exists()) add_bias(r.ctx, r.weights.qkv_bias.as_vector(), qkv);
  auto const groups = head_groups(r);
  for (auto const& g : groups) {
    if (g.gain != nullptr)
      head_rms_norm(r.ctx, g.of(qkv), g.gain->as_vector(), r.shape.eps, g.of(heads),
                    g.statistics(r.rows(r.memory.head_rstd)));
  }
  auto const [q, k, v] = attending(groups, heads, qkv);
  rotary(r.ctx, q, r.batch.positions, r.rotary.cosines.view(), r.rotary.sines.view(), rotation::forward);
  rotary(r.ctx, k, r.batch.positions, r.rotary.cosines.view(), r.rotary.sines.view(), rotation::forward);
  attention(r.ctx, q, k, v, r.batch.offsets, r.shape.attention, r.rows(r.memory.attended),
            r.rows(r.memory.log_sum_exp));
  attention_output(r, out);
}

template <backend B>
void attention_backward_pass(layer_run<B> const& r, matrix_in<B> const& x, matrix_in<B> const& dout,
                             real_matrix<B> const& dx, store how) {
  auto const qkv = r.rows(r.memory.qkv);
  auto const heads = r.rows(r.memory.heads);
  auto const attended = r.rows(r.memory.attended);
  auto const dattended = r.rows(r.scratch.dattended);
  auto const dheads = r.rows(r.scratch.dheads);
  auto const dqkv = r.rows(r.scratch.dqkv);
  auto& w = r.weights;
  if (w.output.trainable()) linear_backward_weight(r.ctx, dout, attended, w.output.gradient.view(), store::add);
  if (w.output_bias.trainable()) add_bias_backward(r.ctx, dout, w.output_bias.vector_gradient());
  linear_backward_input(r.ctx, dout, w.output.operand(), dattended, store::replace);
  auto const groups = head_groups(r);
  auto const [q, k, v] = attending(groups, heads, qkv);
  auto const [dq, dk, dv] = attending(groups, dheads, dqkv);
  attention_backward(r.ctx, q, k, v, r.batch.offsets, r.shape.attention, attended, r.rows(r.memory.log_sum_exp),
                     dattended, dq, dk, dv);
  rotary(r.ctx, dq, r.batch.positions, r.rotary.cosines.view(), r.rotary.sines.view(), rotation::inverse);
  rotary(r.ctx, dk, r.batch.positions, r.rotary.cosines.view(), r.rotary.sines.view(), rotation::inverse);
  for (auto const& g : groups) {
    if (g.gain != nullptr)
      head_rms_norm_backward(r.ctx, g.of(qkv), g.gain->as_vector(), g.statistics(r.rows(r.memory.head_rstd)),
                             g.of(dheads), g.of(dqkv), g.gain->vector_gradient(), store::replace);
  }
  if (w.qkv.trainable()) linear_backward_weight(r.ctx, dqkv, x, w.qkv.gradient.view(), store::add);
  if (w.qkv_bias.trainable()) add_bias_backward(r.ctx, dqkv, w.qkv_bias.vector_gradient());
  linear_backward_input(r.ctx, dqkv, w.qkv.operand(), dx, how);
}

/// x [T, D] -> down(silu(gate x) * up x) [T, D]
template <backend B>
void mlp_forward(layer_run<B> const& r, matrix_in<B> const& x, real_matrix<B> const& out) {
  auto const gate_up = r.rows(r.memory.gate_up);
  auto const activated = r.rows(r.scratch.activated);
  linear(r.ctx, x, r.weights.gate_up.operand(), gate_up, store::replace);
  swiglu(r.ctx, gate_up, activated);
  linear(r.ctx, activated, r.weights.down.operand(), out, store::replace);
}

template <backend B>
void mlp_backward_pass(layer_run<B> const& r, matrix_in<B> const& x, matrix_in<B> const& dout,
                       real_matrix<B> const& dx, store how) {
  auto const gate_up = r.rows(r.memory.gate_up);
  auto const activated = r.rows(r.scratch.activated);
  auto const dactivated = r.rows(r.scratch.dactivated);
  auto const dgate_up = r.rows(r.scratch.dgate_up);
  auto& w = r.weights;
  if (r.gate_up_again) linear(r.ctx, x, w.gate_up.operand(), gate_up, store::replace);
  if (w.down.trainable()) {
    swiglu(r.ctx, gate_up, activated);  // made again rather than kept
    linear_backward_weight(r.ctx, dout, activated, w.down.gradient.view(), store::add);
  }
  linear_backward_input(r.ctx, dout, w.down.operand(), dactivated, store::replace);
  swiglu_backward(r.ctx, gate_up, dactivated, dgate_up);
  if (w.gate_up.trainable()) linear_backward_weight(r.ctx, dgate_up, x, w.gate_up.gradient.view(), store::add);
  linear_backward_input(r.ctx, dgate_up, w.gate_up.operand(), dx, how);
}

/// A backend's operations under the names wiring::execution calls, for values of rank 2.
template <backend B>
struct equation_kernels {
  using values = real_matrix<B>;
  B const& ctx;
  double eps;
  std::vector<parameter<B>>& gains;

  void add(values a, values b, values out) { detail::call_add(ctx, a, b, out); }
  void scale(double c, values a, values out) { detail::call_scale(ctx, c, a, out); }
  void accumulate(double c, values a, values out) { detail::call_accumulate(ctx, c, a, out); }
  void copy(values a, values out) { detail::call_copy(ctx, a, out); }
  void zero(values out) { detail::call_zero(ctx, out); }
  /// A buffer of values as one of operands: the first half of its memory.
  matrix<B> narrow(values buffer) const requires(!one_format<B>) {
    return {reinterpret_cast<typename B::scalar*>(buffer.data), buffer.extents};
  }
  template <class Out>
  void norm(int gain, values a, Out out, real_vector<B> row) {
    rms_norm(ctx, a, gains[std::size_t(gain)].as_vector(), eps, out, row);
  }
  template <class Out>
  void add_norm(values a, values b, values sum, int gain, Out out, real_vector<B> row) {
    add_rms_norm(ctx, a, b, sum, gains[std::size_t(gain)].as_vector(), eps, out, row);
  }
  void norm_backward(int gain, values a, real_vector<B> row, values d, values da, store how) {
    auto& g = gains[std::size_t(gain)];
    rms_norm_backward(ctx, a, g.as_vector(), row, d, da, g.vector_gradient(), how);
  }
  template <class Out>
  void unit(values a, Out out, real_vector<B> row) {
    rms_norm(ctx, a, real_vector<B>{}, eps, out, row);
  }
  void unit_backward(values a, real_vector<B> row, values d, values da, store how) {
    rms_norm_backward(ctx, a, real_vector<B>{}, row, d, da, real_vector<B>{}, how);
  }
};

/// The same with the sublayers of one layer.
template <backend B>
struct layer_kernels : equation_kernels<B> {
  layer_run<B> const& run;

  explicit layer_kernels(layer_run<B> const& r)
      : equation_kernels<B>{r.ctx, r.shape.eps, r.weights.gains}, run(r) {}

  template <class Sublayer, class In>
  void apply(In x, real_matrix<B> out) {
    if constexpr (std::is_same_v<Sublayer, wiring::attention>)
      attention_forward(run, operand(x), out);
    else
      mlp_forward(run, operand(x), out);
  }
  void attention_again(real_matrix<B> out) { attention_output(run, out); }
  template <class Sublayer, class In>
  void apply_backward(In x, real_matrix<B> dout, real_matrix<B> dx, store how) {
    matrix_in<B> const gradient = as_operand<B>(run.ctx, dout, run.scratch.gradient);
    if constexpr (std::is_same_v<Sublayer, wiring::attention>)
      attention_backward_pass(run, operand(x), gradient, dx, how);
    else
      mlp_backward_pass(run, operand(x), gradient, dx, how);
  }

 private:
  matrix_in<B> operand(matrix<B> x) const { return x; }
  matrix_in<B> operand(real_matrix<B> x) const requires(!one_format<B>) {
    return as_operand<B>(run.ctx, x, run.scratch.operand);
  }
};

}  // namespace accrete::inline v0::model
