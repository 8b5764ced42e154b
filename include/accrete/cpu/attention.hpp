#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "accrete/backend/arguments.hpp"
#include "accrete/backend/check.hpp"
#include "accrete/backend/types.hpp"
#include "accrete/cpu/array.hpp"
#include "accrete/cpu/context.hpp"
#include "accrete/cpu/parallel.hpp"

/// Causal attention in blocks (Dao et al. 2022): a block of queries, those of all heads that share a key/value
/// head stacked into one matrix, meets blocks of keys one after the other; scores of a block live in scratch
/// and are made again for the backward. Blocks above the diagonal are never touched.
namespace accrete::inline v0::cpu {

namespace detail {

/// One document (tokens [begin, end)) of one key/value head, from query token `query` on.
struct attention_task {
  index_t begin;
  index_t end;
  index_t kv_head;
  index_t query;
  index_t cost;
};

/// Block sizes, and where a thread's blocks lie in its scratch.
struct attention_blocks {
  explicit attention_blocks(attention_shape const& s)
      : group(s.heads / s.kv_heads),
        queries((std::max)(index_t(16), (std::min)(index_t(128), 192 / group / 16 * 16))),
        rows(group * queries),
        head_dim(s.head_dim) {}
  index_t group;    ///< query heads per key/value head
  index_t queries;  ///< query tokens per block
  index_t rows;     ///< of a stacked block: group * queries
  index_t head_dim;
  static constexpr index_t keys = 128;

  [[nodiscard]] index_t stacked() const { return padded(rows * head_dim); }
  [[nodiscard]] index_t scores() const { return padded(rows * keys); }
  [[nodiscard]] index_t per_row() const { return padded(rows); }
  static index_t padded(index_t n) { return (n + 15) / 16 * 16; }
};

/// Tokens of one head as a matrix [tokens, head_dim].
template <class T>
view<T, 2> head_of(view<T, 2> const& x, index_t first, index_t tokens, index_t head, index_t head_dim) {
  return x.slice(first, tokens).column_slice(head * head_dim, head_dim);
}

/// Stacks the group's heads of tokens [first, first + n): to [group * n, head_dim] = factor * x.
template <class T>
void stack_heads(view<T const, 2> x, index_t first, index_t n, index_t kv_head, attention_blocks const& b,
                 T factor, T* to) {
  for (index_t g = 0; g < b.group; ++g) {
    for (index_t i = 0; i < n; ++i, to += b.head_dim) {
      T const* const from = x.row(first + i) + (kv_head * b.group + g) * b.head_dim;
#pragma omp simd
      for (index_t c = 0; c < b.head_dim; ++c) to[c] = factor * from[c];
    }
  }
}

template <class T>
void check_attention(char const* operation, args::in2<T> q, args::in2<T> k, args::in2<T> v,
                     args::offsets<> documents, attention_shape const& s) {
  check::heads(operation, s);
  check::shape(operation, "q", q, {q.rows(), s.heads * s.head_dim});
  check::shape(operation, "k", k, {q.rows(), s.kv_heads * s.head_dim});
  check::shape(operation, "v", v, {q.rows(), s.kv_heads * s.head_dim});
  check::documents(operation, documents, q.rows());
}

/// Bytes of a task list, to a cache line.
inline index_t task_bytes(index_t tasks) {
  return (tasks * index_t(sizeof(attention_task)) + 63) / 64 * 64;
}

/// The dearest tasks first, so that threads finish together.
inline void sort_tasks(attention_task* tasks, index_t count) {
  std::sort(tasks, tasks + count, [](attention_task const& a, attention_task const& b) {
    if (a.cost != b.cost) return a.cost > b.cost;
    if (a.query != b.query) return a.query < b.query;
    return a.kv_head < b.kv_head;
  });
}

/// One block of queries of one document and key/value head against all its keys.
template <class T, class Gemm>
void attend(view<T const, 2> q, view<T const, 2> k, view<T const, 2> v, attention_task const& task,
            attention_shape const& shape, attention_blocks const& b, view<T, 2> out, view<T, 2> log_sum_exp,
            T* scratch) {
  index_t const d = b.head_dim;
  index_t const n = (std::min)(b.queries, task.end - task.query);  // queries here
  index_t const rows = b.group * n;
  T* const stacked = scratch;            // [rows, d] scaled queries
  T* const sum = stacked + b.stacked();  // [rows, d] weighted values so far
  T* const scores = sum + b.stacked();   // [rows, keys]
  T* const top = scores + b.scores();    // [rows] largest score so far
  T* const total = top + b.per_row();    // [rows] sum of weights so far
  stack_heads<T>(q, task.query, n, task.kv_head, b, T(shape.scale), stacked);
  std::fill_n(top, rows, std::numeric_limits<T>::lowest());
  std::fill_n(total, rows, T(0));
  for (index_t key = task.begin; key < task.query + n; key += b.keys) {
    index_t const m = (std::min)(b.keys, task.query + n - key);  // keys here
    view<T, 2> const s(scores, {rows, m});
    Gemm::template multiply<T>(1, operand::as_is, operand::transposed, store::replace,
                               view<T const, 2>(stacked, {rows, d}), head_of(k, key, m, task.kv_head, d), s);
    for (index_t r = 0; r < rows; ++r) {
      index_t const seen = (std::min)(m, task.query + r % n - key + 1);  // keys up to the query's own token
      T* const row = s.row(r);
      if (seen <= 0) {
        std::fill_n(row, m, T(0));
        continue;
      }
      auto weights = array(row, seen);
      T const largest = (std::max)(top[r], weights.maxCoeff());
      weights = (weights - largest).exp();
      std::fill_n(row + seen, m - seen, T(0));
      T const shrink = key == task.begin ? T(0) : std::exp(top[r] - largest);
      total[r] = total[r] * shrink + weights.sum();
      top[r] = largest;
      if (key != task.begin && shrink != T(1)) array(sum + r * d, d) *= shrink;
    }
    Gemm::template multiply<T>(1, operand::as_is, operand::as_is,
                               key == task.begin ? store::replace : store::add, view<T const, 2>(s),
                               head_of(v, key, m, task.kv_head, d), view<T, 2>(sum, {rows, d}));
  }
  for (index_t r = 0; r < rows; ++r) {
    index_t const head = task.kv_head * b.group + r / n;
    index_t const t = task.query + r % n;
    array(out.row(t) + head * d, d) = array(sum + r * d, d) * (T(1) / total[r]);
    log_sum_exp(t, head) = top[r] + std::log(total[r]);
  }
}

/// The gradients of one document and key/value head, all of them owned by this task.
template <class T, class Gemm>
void attend_backward(view<T const, 2> q, view<T const, 2> k, view<T const, 2> v, attention_task const& task,
                     attention_shape const& shape, attention_blocks const& b, view<T const, 2> out,
                     view<T const, 2> log_sum_exp, view<T const, 2> dout, view<T, 2> dq, view<T, 2> dk,
                     view<T, 2> dv, T* scratch) {
  index_t const d = b.head_dim;
  T* const q_stack = scratch;                    // [rows, d] scaled queries
  T* const dout_stack = q_stack + b.stacked();   // [rows, d]
  T* const dq_stack = dout_stack + b.stacked();  // [rows, d], before the scale
  T* const weights = dq_stack + b.stacked();     // [rows, keys] p
  T* const slopes = weights + b.scores();        // [rows, keys] dp, then p (dp - mean)
  T* const normalizer = slopes + b.scores();     // [rows] log_sum_exp
  T* const mean = normalizer + b.per_row();      // [rows] dout . out, the mean of dp under p
  for (index_t t = task.begin; t < task.end; ++t) {
    std::fill_n(dk.row(t) + task.kv_head * d, d, T(0));
    std::fill_n(dv.row(t) + task.kv_head * d, d, T(0));
  }
  for (index_t query = task.begin; query < task.end; query += b.queries) {
    index_t const n = (std::min)(b.queries, task.end - query);
    index_t const rows = b.group * n;
    stack_heads<T>(q, query, n, task.kv_head, b, T(shape.scale), q_stack);
    stack_heads<T>(dout, query, n, task.kv_head, b, T(1), dout_stack);
    for (index_t r = 0; r < rows; ++r) {
      index_t const head = task.kv_head * b.group + r / n;
      index_t const t = query + r % n;
      normalizer[r] = log_sum_exp(t, head);
      mean[r] = dot(dout.row(t) + head * d, out.row(t) + head * d, d);
    }
    view<T const, 2> const qs(q_stack, {rows, d});
    view<T const, 2> const ds(dout_stack, {rows, d});
    view<T, 2> const dqs(dq_stack, {rows, d});
    for (index_t key = task.begin; key < query + n; key += b.keys) {
      index_t const m = (std::min)(b.keys, query + n - key);
      view<T, 2> const p(weights, {rows, m});
      view<T, 2> const dp(slopes, {rows, m});
      auto const keys = head_of(k, key, m, task.kv_head, d);
      Gemm::template multiply<T>(1, operand::as_is, operand::transposed, store::replace, qs, keys, p);
      Gemm::template multiply<T>(1, operand::as_is, operand::transposed, store::replace, ds,
                                 head_of(v, key, m, task.kv_head, d), dp);
      for (index_t r = 0; r < rows; ++r) {
        index_t const seen = (std::max)(index_t(0), (std::min)(m, query + r % n - key + 1));
        auto w = array(p.row(r), seen);
        w = (w - normalizer[r]).exp();
        auto slope = array(dp.row(r), seen);
        slope = w * (slope - mean[r]);
        std::fill_n(p.row(r) + seen, m - seen, T(0));
        std::fill_n(dp.row(r) + seen, m - seen, T(0));
      }
      Gemm::template multiply<T>(1, operand::transposed, operand::as_is, store::add, view<T const, 2>(p), ds,
                                 head_of(dv, key, m, task.kv_head, d));
      Gemm::template multiply<T>(1, operand::transposed, operand::as_is, store::add, view<T const, 2>(dp), qs,
                                 head_of(dk, key, m, task.kv_head, d));
      Gemm::template multiply<T>(1, operand::as_is, operand::as_is,
                                 key == task.begin ? store::replace : store::add, view<T const, 2>(dp), keys,
                                 dqs);
    }
    for (index_t r = 0; r < rows; ++r) {
      T* const to = dq.row(query + r % n) + (task.kv_head * b.group + r / n) * d;
      array(to, d) = T(shape.scale) * array(dq_stack + r * d, d);
    }
  }
}

}  // namespace detail

/// softmax(scale q k^T) v over the tokens of the same document up to the query's own.
/// q [T, heads * head_dim], k, v [T, kv_heads * head_dim] -> out [T, heads * head_dim], log_sum_exp [T, heads].
/// Scratch grows with threads and head_dim, never with the documents' length squared. Throws shape_error.
template <class T, class Gemm>
void attention(backend<T, Gemm> const& ctx, args::in2<T> q, args::in2<T> k, args::in2<T> v,
               args::offsets<> documents, attention_shape shape, args::out2<T> out, args::out2<T> log_sum_exp) {
  detail::check_attention<T>("attention", q, k, v, documents, shape);
  check::shape("attention", "out", out, q.extents);
  check::shape("attention", "log_sum_exp", log_sum_exp, {q.rows(), shape.heads});
  detail::attention_blocks const blocks(shape);
  index_t count = 0;
  for (index_t d = 0; d + 1 < documents.rows(); ++d) {
    count += (documents(d + 1) - documents(d) + blocks.queries - 1) / blocks.queries * shape.kv_heads;
  }
  index_t const per_thread =
      (2 * blocks.stacked() + blocks.scores() + 2 * blocks.per_row()) * index_t(sizeof(T));
  auto* const scratch = ctx.template scratch<std::byte>(detail::task_bytes(count) + ctx.threads() * per_thread);
  auto* const tasks = reinterpret_cast<detail::attention_task*>(scratch);
  index_t i = 0;
  for (index_t d = 0; d + 1 < documents.rows(); ++d) {
    for (index_t first = documents(d); first < documents(d + 1); first += blocks.queries) {
      for (index_t h = 0; h < shape.kv_heads; ++h) {
        tasks[i++] = {documents(d), documents(d + 1), h, first, first - documents(d) + blocks.queries};
      }
    }
  }
  detail::sort_tasks(tasks, count);
  for_tasks(ctx.threads(), count, [&](index_t task, int thread) {
    auto* const own = reinterpret_cast<T*>(scratch + detail::task_bytes(count) + index_t(thread) * per_thread);
    detail::attend<T, Gemm>(q, k, v, tasks[task], shape, blocks, out, log_sum_exp, own);
  });
}

/// dout [T, heads * head_dim] -> dq [T, heads * head_dim], dk, dv [T, kv_heads * head_dim], all replaced. With
/// p = exp(score - log_sum_exp) and dp = dout v^T, the softmax gives dscore = p (dp - dout . out). Throws
/// shape_error.
template <class T, class Gemm>
void attention_backward(backend<T, Gemm> const& ctx, args::in2<T> q, args::in2<T> k, args::in2<T> v,
                        args::offsets<> documents, attention_shape shape, args::in2<T> out,
                        args::in2<T> log_sum_exp, args::in2<T> dout, args::out2<T> dq, args::out2<T> dk,
                        args::out2<T> dv) {
  detail::check_attention<T>("attention_backward", q, k, v, documents, shape);
  check::shape("attention_backward", "out", out, q.extents);
  check::shape("attention_backward", "log_sum_exp", log_sum_exp, {q.rows(), shape.heads});
  check::shape("attention_backward", "dout", dout, q.extents);
  check::shape("attention_backward", "dq", dq, q.extents);
  check::shape("attention_backward", "dk", dk, k.extents);
  check::shape("attention_backward", "dv", dv, v.extents);
  detail::attention_blocks const blocks(shape);
  index_t const count = (documents.rows() - 1) * shape.kv_heads;
  index_t const per_thread =
      (3 * blocks.stacked() + 2 * blocks.scores() + 2 * blocks.per_row()) * index_t(sizeof(T));
  auto* const scratch = ctx.template scratch<std::byte>(detail::task_bytes(count) + ctx.threads() * per_thread);
  auto* const tasks = reinterpret_cast<detail::attention_task*>(scratch);
  index_t i = 0;
  for (index_t d = 0; d + 1 < documents.rows(); ++d) {
    for (index_t h = 0; h < shape.kv_heads; ++h) {
      index_t const length = documents(d + 1) - documents(d);
      tasks[i++] = {documents(d), documents(d + 1), h, documents(d), length * (length + blocks.queries)};
    }
  }
  detail::sort_tasks(tasks, count);
  for_tasks(ctx.threads(), count, [&](index_t task, int thread) {
    auto* const own = reinterpret_cast<T*>(scratch + detail::task_bytes(count) + index_t(thread) * per_thread);
    detail::attend_backward<T, Gemm>(q, k, v, tasks[task], shape, blocks, out, log_sum_exp, dout, dq, dk, dv,
                                     own);
  });
}

}  // namespace accrete::inline v0::cpu
