#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <limits>

#include "accrete/backend/arguments.hpp"
#include "accrete/backend/check.hpp"
#include "accrete/backend/types.hpp"
#include "accrete/reference/context.hpp"

namespace accrete::inline v0::reference {

namespace detail {

template <class T>
double dot(T const* a, T const* b, index_t n) {
  double sum = 0;
  for (index_t i = 0; i < n; ++i) sum += double(a[i]) * double(b[i]);
  return sum;
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

/// Calls visit(first token of its document, query token, query head, the head's first column in q, and in k and
/// v) for every query: it may look at the tokens from the first of its document up to itself.
template <class F>
void for_each_query(args::offsets<> documents, attention_shape const& s, F&& visit) {
  for (index_t d = 0; d + 1 < documents.rows(); ++d) {
    for (index_t h = 0; h < s.heads; ++h) {
      index_t const kv_head = h / (s.heads / s.kv_heads);
      for (index_t t = documents(d); t < documents(d + 1); ++t) {
        visit(documents(d), t, h, h * s.head_dim, kv_head * s.head_dim);
      }
    }
  }
}

}  // namespace detail

/// softmax(scale q k^T) v over the tokens of the same document up to the query's own.
/// q [T, heads * head_dim], k, v [T, kv_heads * head_dim] -> out [T, heads * head_dim], log_sum_exp [T, heads].
template <std::floating_point T>
void attention(backend<T> const&, args::in2<T> q, args::in2<T> k, args::in2<T> v, args::offsets<> documents,
               attention_shape shape, args::out2<T> out, args::out2<T> log_sum_exp) {
  detail::check_attention<T>("attention", q, k, v, documents, shape);
  check::shape("attention", "out", out, q.extents);
  check::shape("attention", "log_sum_exp", log_sum_exp, {q.rows(), shape.heads});
  constexpr index_t block = 128;  // columns of a head at a time: scores are made anew rather than stored
  detail::for_each_query(documents, shape, [&](index_t begin, index_t t, index_t h, index_t qc, index_t kc) {
    auto const score = [&](index_t j) {
      return shape.scale * detail::dot(q.row(t) + qc, k.row(j) + kc, shape.head_dim);
    };
    double largest = -std::numeric_limits<double>::infinity();
    for (index_t j = begin; j <= t; ++j) largest = (std::max)(largest, score(j));
    double total = 0;
    for (index_t first = 0; first < shape.head_dim; first += block) {
      index_t const count = (std::min)(block, shape.head_dim - first);
      std::array<double, std::size_t(block)> sums{};
      total = 0;
      for (index_t j = begin; j <= t; ++j) {
        double const weight = std::exp(score(j) - largest);
        total += weight;
        for (index_t i = 0; i < count; ++i) sums[std::size_t(i)] += weight * double(v(j, kc + first + i));
      }
      for (index_t i = 0; i < count; ++i) out(t, qc + first + i) = static_cast<T>(sums[std::size_t(i)] / total);
    }
    log_sum_exp(t, h) = static_cast<T>(largest + std::log(total));
  });
}

/// dout [T, heads * head_dim] -> dq [T, heads * head_dim], dk, dv [T, kv_heads * head_dim], all replaced. With
/// p = exp(score - log_sum_exp) and dp = dout v^T, the softmax gives dscore = p (dp - sum_j p_j dp_j), and that
/// sum is dout . out. A key/value head collects from all the query heads that read it.
template <std::floating_point T>
void attention_backward(backend<T> const&, args::in2<T> q, args::in2<T> k, args::in2<T> v,
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
  for (auto gradient : {dq, dk, dv}) {
    for (index_t t = 0; t < gradient.rows(); ++t) {
      std::fill_n(gradient.row(t), gradient.columns(), T(0));
    }
  }
  detail::for_each_query(documents, shape, [&](index_t begin, index_t t, index_t h, index_t qc, index_t kc) {
    index_t const n = shape.head_dim;
    double const mean = detail::dot(dout.row(t) + qc, out.row(t) + qc, n);
    for (index_t j = begin; j <= t; ++j) {
      double const score = shape.scale * detail::dot(q.row(t) + qc, k.row(j) + kc, n);
      double const p = std::exp(score - double(log_sum_exp(t, h)));
      double const dp = detail::dot(dout.row(t) + qc, v.row(j) + kc, n);
      double const ds = shape.scale * p * (dp - mean);
      for (index_t i = 0; i < n; ++i) {
        detail::put(dq(t, qc + i), ds * double(k(j, kc + i)), store::add);
        detail::put(dk(j, kc + i), ds * double(q(t, qc + i)), store::add);
        detail::put(dv(j, kc + i), p * double(dout(t, qc + i)), store::add);
      }
    }
  });
}

}  // namespace accrete::inline v0::reference
