#pragma once
#include <algorithm>
#include <cstddef>
#include <tuple>

#include "accrete/backend/arguments.hpp"
#include "accrete/backend/check.hpp"
#include "accrete/backend/types.hpp"
#include "accrete/cpu/context.hpp"
#include "accrete/cpu/parallel.hpp"

/// How attention is cut into blocks and tasks, and where a thread's blocks lie.
namespace accrete::inline v0::cpu::detail {

/// One document (tokens [begin, end)) of one key/value head, from query token `query` on.
struct attention_task {
  index_t begin;
  index_t end;
  index_t kv_head;
  index_t query;
  index_t cost;
};

/// Block sizes. The queries of all heads that share a key/value head are stacked into one matrix.
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
  static constexpr index_t keys = 256;
};

/// Pieces of a thread's scratch, each on cache lines of its own. Carved from nothing, it only counts.
class carver {
 public:
  explicit carver(std::byte* first) : first_(first) {}
  template <class T>
  T* take(index_t count) {
    T* const piece = first_ == nullptr ? nullptr : reinterpret_cast<T*>(first_ + used_);
    used_ += (count * index_t(sizeof(T)) + 63) / 64 * 64;
    return piece;
  }
  [[nodiscard]] index_t used() const { return used_; }

 private:
  std::byte* first_;
  index_t used_ = 0;
};

/// Tokens of one head as a matrix [tokens, head_dim].
template <class T>
view<T, 2> head_of(view<T, 2> const& x, index_t first, index_t tokens, index_t head, index_t head_dim) {
  return x.slice(first, tokens).column_slice(head * head_dim, head_dim);
}

/// Stacks the group's heads of tokens [first, first + n) to [group * n, head_dim].
template <class T>
void stack_heads(view<T const, 2> x, index_t first, index_t n, index_t kv_head, attention_blocks const& b,
                 T* to) {
  for (index_t g = 0; g < b.group; ++g)
    for (index_t i = 0; i < n; ++i, to += b.head_dim)
      std::copy_n(x.row(first + i) + (kv_head * b.group + g) * b.head_dim, b.head_dim, to);
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

/// Notes attention as so many products of queries with keys, causal pairs alone.
template <class T, class Gemm>
timed_operation time_attention(backend<T, Gemm> const& ctx, char const* name, view<T const, 2> q,
                               args::offsets<> documents, attention_shape const& s, int products) {
  double pairs = 0;
  for (index_t d = 0; d + 1 < documents.rows(); ++d) {
    auto const length = double(documents(d + 1) - documents(d));
    pairs += length * (length + 1) / 2;
  }
  return ctx.timed(name, double(products) * double(q.rows() * (s.heads + s.kv_heads) * s.head_dim),
                   2.0 * products * pairs * double(s.heads * s.head_dim));
}

/// Lists tasks by `list(add)`, which calls add(task) for each of `count`, and runs them on all threads, the
/// dearest first, so that threads finish together: body(task, scratch), `per_thread` bytes for each thread.
template <class T, class Gemm, class List, class Body>
void run_attention_tasks(backend<T, Gemm> const& ctx, index_t count, index_t per_thread, List const& list,
                         Body const& body) {
  carver listed(nullptr);
  listed.take<attention_task>(count);
  auto* const scratch = ctx.template scratch<std::byte>(listed.used() + ctx.threads() * per_thread);
  auto* const tasks = reinterpret_cast<attention_task*>(scratch);
  index_t i = 0;
  list([&](attention_task const& task) { tasks[i++] = task; });
  std::sort(tasks, tasks + count, [](attention_task const& a, attention_task const& b) {
    return std::tuple(-a.cost, a.query, a.kv_head) < std::tuple(-b.cost, b.query, b.kv_head);
  });
  for_tasks(ctx.threads(), count, [&](index_t task, int thread) {
    body(tasks[task], scratch + listed.used() + index_t(thread) * per_thread);
  });
}

}  // namespace accrete::inline v0::cpu::detail
