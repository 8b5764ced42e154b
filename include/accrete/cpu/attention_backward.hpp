#pragma once
#include <algorithm>
#include <cstddef>

#include "accrete/backend/arguments.hpp"
#include "accrete/backend/check.hpp"
#include "accrete/backend/types.hpp"
#include "accrete/cpu/attention_blocks.hpp"
#include "accrete/cpu/attention_softmax.hpp"
#include "accrete/cpu/context.hpp"
#include "accrete/cpu/lanes.hpp"
#include "accrete/cpu/staging.hpp"

/// Attention's backward, block by block: weights are made again from the scores and their log_sum_exp.
namespace accrete::inline v0::cpu {

namespace detail {

/// A thread's scratch for one document. Where numbers are stored in the format they are computed in, what is
/// made of them stays where it was made, and sums over queries are taken where they belong.
template <class T, class C = computed_as<T>>
struct backward_scratch {
  T* queries;                              // [rows, head_dim]
  T* douts;                                // [rows, head_dim]
  C* dqueries;                             // [rows, head_dim]
  C* weights;                              // [rows, keys] scores, then p
  C* dweights;                             // [rows, keys] dp
  C* normalizer;                           // [rows] log_sum_exp
  C* mean;                                 // [rows] dout . out, the mean of dp under p
  T* p;                                    // [rows, keys] p as a matrix to multiply with
  T* dscores;                              // [rows, keys] scale p (dp - mean), likewise
  C *dkeys = nullptr, *dvalues = nullptr;  // [longest document, head_dim]

  backward_scratch(attention_blocks const& b, [[maybe_unused]] index_t longest, carver& from)
      : queries(from.take<T>(b.rows * b.head_dim)),
        douts(from.take<T>(b.rows * b.head_dim)),
        dqueries(from.take<C>(b.rows * b.head_dim)),
        weights(from.take<C>(b.rows * b.keys)),
        dweights(from.take<C>(b.rows * b.keys)),
        normalizer(from.take<C>(b.rows)),
        mean(from.take<C>(b.rows)) {
    if constexpr (stored_narrow<T>) {
      p = from.take<T>(b.rows * b.keys);
      dscores = from.take<T>(b.rows * b.keys);
      dkeys = from.take<C>(longest * b.head_dim);
      dvalues = from.take<C>(longest * b.head_dim);
    } else {
      p = weights;
      dscores = dweights;
    }
  }
  /// Where the gradient of a document's keys or values is summed: `in_place` or the scratch.
  static view<C, 2> sum_at([[maybe_unused]] view<T, 2> in_place, [[maybe_unused]] C* room) {
    if constexpr (stored_narrow<T>)
      return {room, in_place.extents};
    else
      return in_place;
  }
};

/// The gradients of one document and key/value head, all of them owned by this task.
template <class T, class Gemm, class C = computed_as<T>>
void attend_backward(view<T const, 2> q, view<T const, 2> k, view<T const, 2> v, attention_task const& task,
                     attention_shape const& shape, attention_blocks const& b, index_t longest,
                     view<T const, 2> out, view<C const, 2> log_sum_exp, view<T const, 2> dout, view<T, 2> dq,
                     view<T, 2> dk, view<T, 2> dv, std::byte* scratch) {
  carver pieces(scratch);
  backward_scratch<T> const at(b, longest, pieces);
  index_t const d = b.head_dim;
  index_t const length = task.end - task.begin;
  C const scale = C(shape.scale);
  auto const dk_rows = head_of(dk, task.begin, length, task.kv_head, d);
  auto const dv_rows = head_of(dv, task.begin, length, task.kv_head, d);
  auto const dkeys = at.sum_at(dk_rows, at.dkeys);
  auto const dvalues = at.sum_at(dv_rows, at.dvalues);
  for (index_t t = 0; t < length; ++t) {
    std::fill_n(dkeys.row(t), d, C(0));
    std::fill_n(dvalues.row(t), d, C(0));
  }
  for (index_t query = task.begin; query < task.end; query += b.queries) {
    index_t const n = (std::min)(b.queries, task.end - query);
    index_t const rows = b.group * n;
    stack_heads<T>(q, query, n, task.kv_head, b, at.queries);
    stack_heads<T>(dout, query, n, task.kv_head, b, at.douts);
    for (index_t r = 0; r < rows; ++r) {
      index_t const head = task.kv_head * b.group + r / n;
      index_t const t = query + r % n;
      at.normalizer[r] = log_sum_exp(t, head);
      at.mean[r] = dot<C>(dout.row(t) + head * d, out.row(t) + head * d, d);
    }
    view<T const, 2> const queries(at.queries, {rows, d});
    view<T const, 2> const douts(at.douts, {rows, d});
    for (index_t key = task.begin; key < query + n; key += b.keys) {
      index_t const m = (std::min)(b.keys, query + n - key);
      view<C, 2> const weights(at.weights, {rows, m});
      view<C, 2> const dweights(at.dweights, {rows, m});
      view<T, 2> const p(at.p, {rows, m});
      view<T, 2> const dscores(at.dscores, {rows, m});
      auto const keys = head_of(k, key, m, task.kv_head, d);
      Gemm::template multiply<T>(1, operand::as_is, operand::transposed, store::replace, queries, keys,
                                 weights);
      Gemm::template multiply<T>(1, operand::as_is, operand::transposed, store::replace, douts,
                                 head_of(v, key, m, task.kv_head, d), dweights);
      for (index_t r = 0; r < rows; ++r) {
        index_t const seen = (std::max)(index_t(0), (std::min)(m, query + r % n - key + 1));
        score_row<C>{weights.row(r), seen, m}.backward(scale, at.normalizer[r], at.mean[r], dweights.row(r),
                                                       p.row(r), dscores.row(r));
      }
      view<T const, 2> const weight_operand = p, slope_operand = dscores;
      Gemm::template multiply<T>(1, operand::transposed, operand::as_is, store::add, weight_operand, douts,
                                 dvalues.slice(key - task.begin, m));
      Gemm::template multiply<T>(1, operand::transposed, operand::as_is, store::add, slope_operand, queries,
                                 dkeys.slice(key - task.begin, m));
      Gemm::template multiply<T>(1, operand::as_is, operand::as_is,
                                 key == task.begin ? store::replace : store::add, slope_operand, keys,
                                 view<C, 2>(at.dqueries, {rows, d}));
    }
    for (index_t r = 0; r < rows; ++r)
      convert(at.dqueries + r * d, d, dq.row(query + r % n) + (task.kv_head * b.group + r / n) * d);
  }
  if constexpr (stored_narrow<T>) {
    for (index_t t = 0; t < length; ++t) {
      convert(dkeys.row(t), d, dk_rows.row(t));
      convert(dvalues.row(t), d, dv_rows.row(t));
    }
  }
}

}  // namespace detail

/// dout [T, heads * head_dim] -> dq [T, heads * head_dim], dk, dv [T, kv_heads * head_dim], all replaced. With
/// p = exp(score - log_sum_exp) and dp = dout v^T, the softmax gives dscore = p (dp - dout . out). Throws
/// shape_error, and config_error for a scale that is not above 0.
template <class T, class Gemm, class C = computed_as<T>>
void attention_backward(backend<T, Gemm> const& ctx, args::in2<T> q, args::in2<T> k, args::in2<T> v,
                        args::offsets<> documents, attention_shape shape, args::in2<T> out,
                        args::in2<C> log_sum_exp, args::in2<T> dout, args::out2<T> dq, args::out2<T> dk,
                        args::out2<T> dv) {
  detail::check_attention<T>("attention_backward", q, k, v, documents, shape);
  check::shape("attention_backward", "out", out, q.extents);
  check::shape("attention_backward", "log_sum_exp", log_sum_exp, {q.rows(), shape.heads});
  check::shape("attention_backward", "dout", dout, q.extents);
  check::shape("attention_backward", "dq", dq, q.extents);
  check::shape("attention_backward", "dk", dk, k.extents);
  check::shape("attention_backward", "dv", dv, v.extents);
  auto const timing = detail::time_attention(ctx, "attention_backward", q, documents, shape, 5);
  detail::attention_blocks const blocks(shape);
  index_t longest = 0;
  for (index_t d = 0; d + 1 < documents.rows(); ++d)
    longest = (std::max)(longest, documents(d + 1) - documents(d));
  detail::carver counted(nullptr);
  detail::backward_scratch<T> const measured(blocks, longest, counted);
  auto const list = [&](auto const& add) {
    for (index_t d = 0; d + 1 < documents.rows(); ++d) {
      index_t const length = documents(d + 1) - documents(d);
      for (index_t h = 0; h < shape.kv_heads; ++h)
        add({documents(d), documents(d + 1), h, documents(d), length * (length + blocks.queries)});
    }
  };
  detail::run_attention_tasks(ctx, (documents.rows() - 1) * shape.kv_heads, counted.used(), list,
                              [&](auto const& task, std::byte* scratch) {
                                detail::attend_backward<T, Gemm>(q, k, v, task, shape, blocks, longest, out,
                                                                 log_sum_exp, dout, dq, dk, dv, scratch);
                              });
}

}  // namespace accrete::inline v0::cpu
