#pragma once
#include <algorithm>
#include <concepts>

#include "accrete/backend/arguments.hpp"
#include "accrete/backend/check.hpp"
#include "accrete/cpu/context.hpp"
#include "accrete/cpu/parallel.hpp"
#include "accrete/cpu/staging.hpp"

/// Moving, filling, and sums of whole tensors.
namespace accrete::inline v0::cpu {

namespace detail {

/// Calls body(row, first, count) so that every element of a [rows, columns] matrix is met once; a matrix
/// without gaps is one long row.
template <class Body>
void for_elements(int threads, index_t rows, index_t columns, bool one_row, Body const& body) {
  if (one_row) {
    constexpr index_t line = 64;  // elements: threads do not share a cache line
    index_t const lines = (rows * columns + line - 1) / line;
    for_ranges(threads, lines, line, [&](range r) {
      index_t const first = r.first * line;
      body(index_t(0), first, (std::min)(r.last * line, rows * columns) - first);
    });
  } else {
    for_ranges(threads, rows, columns, [&](range r) {
      for (index_t i = r.first; i < r.last; ++i) body(i, index_t(0), columns);
    });
  }
}

/// A vector as a matrix of one column or one row, whichever leaves no gaps.
template <class T>
view<T, 2> as_matrix(view<T, 1> const& v) {
  if (v.contiguous()) return {v.data, {1, v.rows()}, v.rows()};
  return {v.data, {v.rows(), 1}, v.stride};
}

template <class From, class To>
void copy_elements(int threads, view<From const, 2> from, view<To, 2> to) {
  for_elements(
      threads, to.rows(), to.columns(), from.contiguous() && to.contiguous(),
      [&](index_t i, index_t first, index_t n) { convert(from.row(i) + first, n, to.row(i) + first); });
}

template <class T>
void copy_vector(int threads, char const* where, view<T const, 1> from, view<T, 1> to) {
  check::shape(where, "out", to, from.extents);
  if (from.contiguous() && to.contiguous()) {
    copy_elements<T, T>(threads, as_matrix(from), as_matrix(to));
  } else {
    for (index_t i = 0; i < to.rows(); ++i) to(i) = from(i);
  }
}
template <class From, class To>
void copy_matrix(int threads, view<From const, 2> from, view<To, 2> to) {
  check::shape("copy", "out", to, from.extents);
  copy_elements<From, To>(threads, from, to);
}
template <class T>
void zero_matrix(int threads, view<T, 2> out) {
  for_elements(threads, out.rows(), out.columns(), out.contiguous(),
               [&](index_t i, index_t first, index_t n) { std::fill_n(out.row(i) + first, n, T(0)); });
}

}  // namespace detail

/// out [n] = in [n], from host memory: here a copy. Throws shape_error.
template <class T, class Gemm>
void upload(backend<T, Gemm> const& ctx, args::in1<T> in, args::out1<T> out) {
  detail::copy_vector<T>(ctx.threads(), "upload", in, out);
}
/// out [n] = in [n], to host memory: here a copy. Throws shape_error.
template <class T, class Gemm>
void download(backend<T, Gemm> const& ctx, args::in1<T> in, args::out1<T> out) {
  detail::copy_vector<T>(ctx.threads(), "download", in, out);
}
/// out [n] = in [n]. Throws shape_error.
template <class T, class Gemm>
void copy(backend<T, Gemm> const& ctx, args::in1<T> in, args::out1<T> out) {
  detail::copy_vector<T>(ctx.threads(), "copy", in, out);
}
/// out [m, n] = in [m, n]. Throws shape_error.
template <class T, class Gemm>
void copy(backend<T, Gemm> const& ctx, args::in2<T> in, args::out2<T> out) {
  auto const timing = ctx.timed("copy", (2.0) * double(in.size()));
  detail::copy_matrix<T, T>(ctx.threads(), in, out);
}
/// out [n] = 0.
template <class T, class Gemm>
void zero(backend<T, Gemm> const& ctx, args::out1<T> out) {
  auto const timing = ctx.timed("zero", double(out.size()));
  detail::zero_matrix<T>(ctx.threads(), detail::as_matrix(out));
}
/// out [m, n] = 0.
template <class T, class Gemm>
void zero(backend<T, Gemm> const& ctx, args::out2<T> out) {
  auto const timing = ctx.timed("zero", double(out.size()));
  detail::zero_matrix<T>(ctx.threads(), out);
}

// The same for the wider format, and from one to the other.
template <class T, class Gemm>
  requires stored_narrow<T>
void upload(backend<T, Gemm> const& ctx, args::in1<computed_as<T>> in, args::out1<computed_as<T>> out) {
  detail::copy_vector<computed_as<T>>(ctx.threads(), "upload", in, out);
}
template <class T, class Gemm>
  requires stored_narrow<T>
void download(backend<T, Gemm> const& ctx, args::in1<computed_as<T>> in, args::out1<computed_as<T>> out) {
  detail::copy_vector<computed_as<T>>(ctx.threads(), "download", in, out);
}
template <class T, class Gemm>
  requires stored_narrow<T>
void copy(backend<T, Gemm> const& ctx, args::in1<computed_as<T>> in, args::out1<computed_as<T>> out) {
  detail::copy_vector<computed_as<T>>(ctx.threads(), "copy", in, out);
}
template <class T, class Gemm>
  requires stored_narrow<T>
void copy(backend<T, Gemm> const& ctx, args::in2<computed_as<T>> in, args::out2<computed_as<T>> out) {
  auto const timing = ctx.timed("copy", (2.0 * widths<T>) * double(in.size()));
  detail::copy_matrix<computed_as<T>, computed_as<T>>(ctx.threads(), in, out);
}
template <class T, class Gemm>
  requires stored_narrow<T>
void copy(backend<T, Gemm> const& ctx, args::in2<computed_as<T>> in, args::out2<T> out) {
  auto const timing = ctx.timed("copy", (1.0 + widths<T>) * double(in.size()));
  detail::copy_matrix<computed_as<T>, T>(ctx.threads(), in, out);
}
template <class T, class Gemm>
  requires stored_narrow<T>
void copy(backend<T, Gemm> const& ctx, args::in2<T> in, args::out2<computed_as<T>> out) {
  auto const timing = ctx.timed("copy", (1.0 + widths<T>) * double(in.size()));
  detail::copy_matrix<T, computed_as<T>>(ctx.threads(), in, out);
}
template <class T, class Gemm>
  requires stored_narrow<T>
void zero(backend<T, Gemm> const& ctx, args::out1<computed_as<T>> out) {
  auto const timing = ctx.timed("zero", widths<T> * double(out.size()));
  detail::zero_matrix<computed_as<T>>(ctx.threads(), detail::as_matrix(out));
}
template <class T, class Gemm>
  requires stored_narrow<T>
void zero(backend<T, Gemm> const& ctx, args::out2<computed_as<T>> out) {
  auto const timing = ctx.timed("zero", widths<T> * double(out.size()));
  detail::zero_matrix<computed_as<T>>(ctx.threads(), out);
}

/// out = a + b, all [m, n]; out may be a or b. Throws shape_error.
template <class T, class Gemm>
void add(backend<T, Gemm> const& ctx, args::in2<computed_as<T>> a, args::in2<computed_as<T>> b, args::out2<computed_as<T>> out) {
  check::shape("add", "b", b, a.extents);
  check::shape("add", "out", out, a.extents);
  auto const timing = ctx.timed("add", 3.0 * widths<T> * double(a.size()));
  detail::for_elements(ctx.threads(), out.rows(), out.columns(),
                       a.contiguous() && b.contiguous() && out.contiguous(),
                       [&](index_t i, index_t first, index_t n) {
                         auto const* const p = a.row(i) + first;
                         auto const* const q = b.row(i) + first;
                         auto* const o = out.row(i) + first;
#pragma omp simd
                         for (index_t j = 0; j < n; ++j) o[j] = p[j] + q[j];
                       });
}

/// out = c a, both [m, n]; out may be a. Throws shape_error.
template <class T, class Gemm>
void scale(backend<T, Gemm> const& ctx, double c, args::in2<computed_as<T>> a, args::out2<computed_as<T>> out) {
  check::shape("scale", "out", out, a.extents);
  auto const timing = ctx.timed("scale", 2.0 * widths<T> * double(a.size()));
  detail::for_elements(ctx.threads(), out.rows(), out.columns(), a.contiguous() && out.contiguous(),
                       [&](index_t i, index_t first, index_t n) {
                         auto const factor = computed_as<T>(c);
                         auto const* const p = a.row(i) + first;
                         auto* const o = out.row(i) + first;
#pragma omp simd
                         for (index_t j = 0; j < n; ++j) o[j] = factor * p[j];
                       });
}

/// out += c a, both [m, n]. Throws shape_error.
template <class T, class Gemm>
void accumulate(backend<T, Gemm> const& ctx, double c, args::in2<computed_as<T>> a, args::out2<computed_as<T>> out) {
  check::shape("accumulate", "out", out, a.extents);
  auto const timing = ctx.timed("accumulate", 3.0 * widths<T> * double(a.size()));
  detail::for_elements(ctx.threads(), out.rows(), out.columns(), a.contiguous() && out.contiguous(),
                       [&](index_t i, index_t first, index_t n) {
                         auto const factor = computed_as<T>(c);
                         auto const* const p = a.row(i) + first;
                         auto* const o = out.row(i) + first;
#pragma omp simd
                         for (index_t j = 0; j < n; ++j) o[j] += factor * p[j];
                       });
}

}  // namespace accrete::inline v0::cpu
