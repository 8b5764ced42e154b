#pragma once
#include <concepts>
#include <cstdint>

#include "accrete/backend/types.hpp"
#include "accrete/core/view.hpp"

/// The list of operations a backend provides. A backend is a class whose objects are the context of a
/// computation (threads, stream, scratch); the operations are free functions in its namespace, called
/// unqualified with the context first, so that the right ones are found without an #ifdef. Matrices are
/// row-major, weights [out, in] as Hugging Face stores them. T below is the number of tokens of a step
/// (documents end to end).
///
/// Out may alias in only where it says "in place". `store` tells whether an output is replaced or added to;
/// gradients of parameters (dgain, dw) are always added to.
namespace accrete::inline v0 {

/// Element types and the memory they live in. `scalar` is what products read: weights of matrices, and
/// activations that meet them. `real` is what everything else holds: residual streams and their gradients,
/// vectors (gains, biases), statistics, gradients of weights and the optimizer's state. `logit` is what logits
/// lie in between a head's product and its losses. They may be the same type; where `scalar` and `real` stand in
/// one row of a signature below, either is taken.
template <class B>
concept has_types = requires {
  typename B::scalar;
  typename B::real;
  typename B::logit;
  typename B::space;
};

/// B's vocabulary, for the requirements below.
template <has_types B>
struct of_backend {
  using scalar = typename B::scalar;
  using real = typename B::real;
  using in1 = view<scalar const, 1, typename B::space>;
  using in2 = view<scalar const, 2, typename B::space>;
  using out1 = view<scalar, 1, typename B::space>;
  using out2 = view<scalar, 2, typename B::space>;
  using real_in1 = view<real const, 1, typename B::space>;
  using real_in2 = view<real const, 2, typename B::space>;
  using real_out1 = view<real, 1, typename B::space>;
  using real_out2 = view<real, 2, typename B::space>;
  using logits_in = view<typename B::logit const, 2, typename B::space>;
  using logits_out = view<typename B::logit, 2, typename B::space>;
  using ids = view<std::int32_t const, 1, typename B::space>;
  using offsets = view<index_t const, 1, typename B::space>;  // [documents + 1], the first is 0, the last T
  using sums = view<double, 1, typename B::space>;
  using host_in = view<scalar const, 1, mem::host>;
  using host_out = view<scalar, 1, mem::host>;
  using host_real_in = view<real const, 1, mem::host>;
  using host_real_out = view<real, 1, mem::host>;
};

/// Moving and filling, of `scalar` as of `real`. `upload` and `download` cross between host memory and the
/// backend's. `copy` of matrices also goes from one format to the other.
template <class B, class V = of_backend<B>>
concept has_memory_operations =
    requires(B const& ctx, typename V::in1 in, typename V::out1 out, typename V::host_in host_in,
             typename V::host_out host_out, typename V::in2 in2, typename V::out2 out2) {
  upload(ctx, host_in, out);
  download(ctx, in, host_out);
  copy(ctx, in, out);
  zero(ctx, out);
  copy(ctx, in2, out2);
} && requires(B const& ctx, typename V::real_in1 in, typename V::real_out1 out, typename V::host_real_in host_in,
              typename V::host_real_out host_out, typename V::real_in2 in2, typename V::real_out2 out2,
              typename V::in2 narrow_in2, typename V::out2 narrow_out2) {
  upload(ctx, host_in, out);
  download(ctx, in, host_out);
  copy(ctx, in, out);
  zero(ctx, out);
  copy(ctx, in2, out2);
  copy(ctx, in2, narrow_out2);
  copy(ctx, narrow_in2, out2);
};

/// The three products of a linear map y = x W^T:
///   linear:                 x [T, in], w [out, in] -> y [T, out], `scalar` or `real`
///   linear_backward_input:  dy [T, out], w [out, in] -> dx [T, in], `scalar` or `real`
///   linear_backward_weight: dy [T, out], x [T, in] -> dw [out, in], `real`
/// and a bias beside it:
///   add_bias:               y [T, out] += bias [out], in every row, in place; y `scalar` or `real`
///   add_bias_backward:      dy [T, out] -> dbias [out], the sum over tokens, added to
template <class B, class V = of_backend<B>>
concept has_linear =
    requires(B const& ctx, typename V::in2 in, typename V::out2 out, typename V::real_out2 real_out,
             typename V::real_in1 bias, typename V::real_out1 dbias, store how) {
  linear(ctx, in, in, out, how);
  linear(ctx, in, in, real_out, how);
  linear_backward_input(ctx, in, in, out, how);
  linear_backward_input(ctx, in, in, real_out, how);
  linear_backward_weight(ctx, in, in, real_out, how);
  add_bias(ctx, bias, out);
  add_bias(ctx, bias, real_out);
  add_bias_backward(ctx, in, dbias);
};

/// Whole-tensor arithmetic of `real`. add: out = a + b (in place on either). scale: out = c a (in place).
/// accumulate: out += c a.
template <class B, class V = of_backend<B>>
concept has_arithmetic = requires(B const& ctx, typename V::real_in2 in, typename V::real_out2 out, double c) {
  add(ctx, in, in, out);
  scale(ctx, c, in, out);
  accumulate(ctx, c, in, out);
};

/// RMS norm over the last dimension, y = gain * x * rstd, rstd = 1 / sqrt(mean(x^2) + eps) in `real`.
///   rms_norm:          x [T, D], gain [D] (empty: no gain) -> y [T, D], `scalar` or `real`; rstd [T]
///   add_rms_norm:      sum = a + b, y = norm(sum) in one pass (sum may alias a or b); y likewise
///   rms_norm_backward: dx (store), dgain (added to; empty: not wanted)
///   head_rms_norm:     x [T, H * head_dim], gain [head_dim] shared by the H heads -> y, rstd [T, H]; y may be
///   x
/// Rows are of residual streams, `real`; heads of activations, `scalar`.
template <class B, class V = of_backend<B>>
concept has_norms =
    requires(B const& ctx, typename V::in2 in, typename V::real_in2 real_in, typename V::real_in1 gain,
             typename V::out2 out, typename V::real_out2 real_out, typename V::real_out1 dgain,
             typename V::real_out1 rstd, typename V::real_in1 rstd_in, typename V::real_out2 head_rstd,
             typename V::real_in2 head_rstd_in, double eps, store how) {
  rms_norm(ctx, real_in, gain, eps, real_out, rstd);
  rms_norm(ctx, real_in, gain, eps, out, rstd);
  add_rms_norm(ctx, real_in, real_in, real_out, gain, eps, real_out, rstd);
  add_rms_norm(ctx, real_in, real_in, real_out, gain, eps, out, rstd);
  rms_norm_backward(ctx, real_in, gain, rstd_in, real_in, real_out, dgain, how);
  head_rms_norm(ctx, in, gain, eps, out, head_rstd);
  head_rms_norm_backward(ctx, in, gain, head_rstd_in, in, out, dgain, how);
};

/// embed:     table [V, D] `scalar`, ids [T] -> out [T, D] `real`
/// rotary_table: cosines, sines [positions, head_dim / 2] of position * frequencies[i], radians in double on
/// the
///            host: how they come from a base, and are scaled, is the model's business
/// rotary:    half-split pairs (i, i + head_dim / 2) of every head of x [T, H * head_dim], in place
template <class B, class V = of_backend<B>>
concept has_positions = requires(B const& ctx, typename V::in2 in, typename V::ids ids, typename V::out2 out,
                                 typename V::real_out2 embedded, typename V::real_out2 table, typename V::real_in2 table_in,
                                 view<double const, 1, mem::host> frequencies, rotation way) {
  embed(ctx, in, ids, embedded);
  rotary_table(ctx, frequencies, table, table);
  rotary(ctx, out, ids, table_in, table_in, way);
};

/// Causal attention inside each document; tokens of different documents never meet.
///   attention: q [T, heads * head_dim], k, v [T, kv_heads * head_dim] -> out [T, heads * head_dim],
///              log_sum_exp [T, heads] of the scaled scores, for the backward
///   attention_backward: dout -> dq, dk, dv (all replaced)
template <class B, class V = of_backend<B>>
concept has_attention = requires(B const& ctx, typename V::in2 in, typename V::out2 out,
                                 typename V::real_out2 log_sum_exp, typename V::real_in2 log_sum_exp_in,
                                 typename V::offsets documents, attention_shape shape) {
  attention(ctx, in, in, in, documents, shape, out, log_sum_exp);
  attention_backward(ctx, in, in, in, documents, shape, in, log_sum_exp_in, in, out, out, out);
};

/// swiglu: gate|up [T, 2 F] -> silu(gate) * up [T, F]; its backward gives dgate|dup (replaced).
template <class B, class V = of_backend<B>>
concept has_swiglu = requires(B const& ctx, typename V::in2 in, typename V::out2 out) {
  swiglu(ctx, in, out);
  swiglu_backward(ctx, in, in, out);
};

/// Losses over a slice of n tokens; sums are added to, so slices build a total. A row of logits is as good as the
/// same with one number taken off all of it.
///   head_logits:       x [n, D], head [V, D], targets [n] -> logits [n, V] = x head^T; where `logit` is coarser
///                      than `real`, each row's relative to its target's (to 0 where that is ignore_target)
///   distillation_loss: teacher logits [n, V] (read), student logits [n, V] (overwritten), targets [n] ->
///                      gradient [n, V] `scalar`, which may lie over the student's logits, each row from where
///                      theirs begins; sums[0] += tau^2 KL, sums[1] += CE. Rows whose target is
///                      ignore_target add nothing and get a zero gradient.
///   cross_entropy:     logits [n, V] -> sums[0] += CE
template <class B, class V = of_backend<B>>
concept has_losses = requires(B const& ctx, typename V::logits_in in, typename V::logits_out out,
                              typename V::in2 matrix, typename V::out2 gradient, typename V::ids targets,
                              distillation_weights weights, typename V::sums sums) {
  head_logits(ctx, matrix, matrix, targets, out);
  distillation_loss(ctx, in, out, gradient, targets, weights, sums);
  cross_entropy(ctx, in, targets, sums);
};

/// sum_of_squares: in double, and in the same order for a given thread count; not finite if any element isn't.
/// adamw: parameter, gradient, first and second moment, all [n] `real`; `stored` [n] `scalar`, unless empty,
/// becomes the updated parameter too.
template <class B, class V = of_backend<B>>
concept has_optimizer = requires(B const& ctx, typename V::real_in1 in, typename V::real_out1 out,
                                 typename V::out1 stored, adamw_step step) {
  { sum_of_squares(ctx, in) } -> std::same_as<double>;
  adamw(ctx, out, in, out, out, step, stored);
};

/// Everything a student needs. `B::name()` is what reports call it.
template <class B>
concept backend =
    has_types<B> && has_memory_operations<B> && has_linear<B> && has_arithmetic<B> && has_norms<B> &&
    has_positions<B> && has_attention<B> && has_swiglu<B> && has_losses<B> && has_optimizer<B> && requires {
  { B::name() } -> std::convertible_to<char const*>;
};

}  // namespace accrete::inline v0
