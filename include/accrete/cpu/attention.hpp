#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "accrete/backend/arguments.hpp"
#include "accrete/backend/check.hpp"
#include "accrete/backend/types.hpp"
#include "accrete/cpu/array.hpp"
#include "accrete/cpu/attention_blocks.hpp"
#include "accrete/cpu/attention_softmax.hpp"
#include "accrete/cpu/context.hpp"
#include "accrete/cpu/staging.hpp"

/// Causal attention in blocks (Dao et al. 2022): a block of queries, those of all heads that share a key/value
/// head stacked into one matrix, meets blocks of keys one after the other; scores of a block live in scratch
/// and are made again for the backward. Blocks above the diagonal are never touched.
namespace accrete::inline v0::cpu {

namespace detail {

/// A thread's scratch for one block of queries. Scores and weights share memory where they have one format.
template <class T, class C = computed_as<T>>
struct forward_scratch {
  T* queries;  // [rows, head_dim]
  C* sum;      // [rows, head_dim] weighted values so far
  C* scores;   // [rows, keys]
  T* weights;  // [rows, keys]
  C* top;      // [rows] largest score so far
  C* total;    // [rows] sum of weights so far

  forward_scratch(attention_blocks const& b, carver& from)
      : queries(from.take<T>(b.rows * b.head_dim)),
        sum(from.take<C>(b.rows * b.head_dim)),
        scores(from.take<C>(b.rows * b.keys)),
        weights(weights_at(b, from)),
        top(from.take<C>(b.rows)),
        total(from.take<C>(b.rows)) {}

 private:
  T* weights_at([[maybe_unused]] attention_blocks const& b, [[maybe_unused]] carver& from) {
    if constexpr (stored_narrow<T>)
      return from.take<T>(b.rows * b.keys);
    else
      return scores;
  }
};

/// One block of queries of one document and key/value head against all its keys.
template <class T, class Gemm, class C = computed_as<T>>
void attend(view<T const, 2> q, view<T const, 2> k, view<T const, 2> v, attention_task const& task,
            attention_shape const& shape, attention_blocks const& b, view<T, 2> out, view<C, 2> log_sum_exp,
            std::byte* scratch) {
  carver pieces(scratch);
  forward_scratch<T> const at(b, pieces);
  index_t const d = b.head_dim;
  index_t const n = (std::min)(b.queries, task.end - task.query);  // queries here
  index_t const rows = b.group * n;
  C const scale = C(shape.scale);
  stack_heads<T>(q, task.query, n, task.kv_head, b, at.queries);
  std::fill_n(at.top, rows, std::numeric_limits<C>::lowest());
  std::fill_n(at.total, rows, C(0));
  for (index_t key = task.begin; key < task.query + n; key += b.keys) {
    index_t const m = (std::min)(b.keys, task.query + n - key);  // keys here
    view<C, 2> const s(at.scores, {rows, m});
    view<T, 2> const w(at.weights, {rows, m});
    Gemm::template multiply<T>(1, operand::as_is, operand::transposed, store::replace,
                               view<T const, 2>(at.queries, {rows, d}), head_of(k, key, m, task.kv_head, d), s);
    for (index_t r = 0; r < rows; ++r) {
      index_t const seen = (std::min)(m, task.query + r % n - key + 1);  // keys up to the query's own token
      if (seen <= 0) {
        std::fill_n(w.row(r), m, T(0));
        continue;
      }
      score_row<C> const row{s.row(r), seen, m};
      C const largest = (std::max)(at.top[r], scale * row.largest());
      C const shrink = key == task.begin ? C(0) : std::exp(at.top[r] - largest);
      at.total[r] = at.total[r] * shrink + row.weigh(scale, largest, w.row(r));
      at.top[r] = largest;
      if (key != task.begin && shrink != C(1)) array(at.sum + r * d, d) *= shrink;
    }
    Gemm::template multiply<T>(1, operand::as_is, operand::as_is,
                               key == task.begin ? store::replace : store::add, view<T const, 2>(w),
                               head_of(v, key, m, task.kv_head, d), view<C, 2>(at.sum, {rows, d}));
  }
  for (index_t r = 0; r < rows; ++r) {
    index_t const head = task.kv_head * b.group + r / n;
    index_t const t = task.query + r % n;
    array(at.sum + r * d, d) *= C(1) / at.total[r];
    convert(at.sum + r * d, d, out.row(t) + head * d);
    log_sum_exp(t, head) = at.top[r] + std::log(at.total[r]);
  }
}

}  // namespace detail

/// softmax(scale q k^T) v over the tokens of the same document up to the query's own.
/// q [T, heads * head_dim], k, v [T, kv_heads * head_dim] -> out [T, heads * head_dim], log_sum_exp [T, heads].
/// Scratch grows with threads and head_dim, never with the documents' length. Throws shape_error, and
/// config_error for a scale that is not above 0.
template <class T, class Gemm, class C = computed_as<T>>
void attention(backend<T, Gemm> const& ctx, args::in2<T> q, args::in2<T> k, args::in2<T> v,
               args::offsets<> documents, attention_shape shape, args::out2<T> out, args::out2<C> log_sum_exp) {
  detail::check_attention<T>("attention", q, k, v, documents, shape);
  check::shape("attention", "out", out, q.extents);
  check::shape("attention", "log_sum_exp", log_sum_exp, {q.rows(), shape.heads});
  auto const timing = detail::time_attention(ctx, "attention", q, documents, shape, 2);
  detail::attention_blocks const blocks(shape);
  detail::carver counted(nullptr);
  detail::forward_scratch<T> const measured(blocks, counted);
  index_t count = 0;
  for (index_t d = 0; d + 1 < documents.rows(); ++d)
    count += (documents(d + 1) - documents(d) + blocks.queries - 1) / blocks.queries * shape.kv_heads;
  auto const list = [&](auto const& add) {
    for (index_t d = 0; d + 1 < documents.rows(); ++d)
      for (index_t first = documents(d); first < documents(d + 1); first += blocks.queries)
        for (index_t h = 0; h < shape.kv_heads; ++h)
          add({documents(d), documents(d + 1), h, first, first - documents(d) + blocks.queries});
  };
  detail::run_attention_tasks(ctx, count, counted.used(), list, [&](auto const& task, std::byte* scratch) {
    detail::attend<T, Gemm>(q, k, v, task, shape, blocks, out, log_sum_exp, scratch);
  });
}

}  // namespace accrete::inline v0::cpu
