#pragma once
#include <algorithm>
#include <array>
#include <cstddef>

#include "accrete/backend/arguments.hpp"
#include "accrete/backend/check.hpp"
#include "accrete/backend/types.hpp"
#include "accrete/cpu/context.hpp"
#include "accrete/cpu/gemm_provider.hpp"
#include "accrete/cpu/parallel.hpp"
#include "accrete/cpu/staging.hpp"

namespace accrete::inline v0::cpu {

namespace detail {

// Not as a constraint: what it looks at need not be there where an operation is declared alone.
template <class T, class R, class Gemm>
constexpr void check_provider() {
  static_assert(gemm_provider<Gemm, T, R>,
                "[accrete] cpu::backend: Gemm must multiply its numbers. See accrete/cpu/gemm_provider.hpp");
}

/// [m, k] times [k, n].
template <class T, class Gemm>
timed_operation time_product(backend<T, Gemm> const& ctx, char const* name, index_t m, index_t n, index_t k) {
  auto const a = double(m), b = double(n), c = double(k);
  return ctx.timed(name, a * c + c * b + a * b, 2 * a * b * c);
}

template <class R, class T, class Gemm>
void multiply_linear(backend<T, Gemm> const& ctx, view<T const, 2> x, view<T const, 2> w, view<R, 2> y, store how) {
  check_provider<T, R, Gemm>();
  check::shape("linear", "x", x, {y.rows(), w.columns()});
  check::shape("linear", "y", y, {x.rows(), w.rows()});
  auto const timing = time_product(ctx, "linear", x.rows(), w.rows(), w.columns());
  Gemm::template multiply<T>(ctx.threads(), operand::as_is, operand::transposed, how, x, w, y);
}

template <class R, class T, class Gemm>
void multiply_back(backend<T, Gemm> const& ctx, view<T const, 2> dy, view<T const, 2> w, view<R, 2> dx, store how) {
  check_provider<T, R, Gemm>();
  check::shape("linear_backward_input", "dy", dy, {dx.rows(), w.rows()});
  check::shape("linear_backward_input", "dx", dx, {dy.rows(), w.columns()});
  auto const timing = time_product(ctx, "linear_backward_input", dy.rows(), w.columns(), w.rows());
  Gemm::template multiply<T>(ctx.threads(), operand::as_is, operand::as_is, how, dy, w, dx);
}

}  // namespace detail

/// y [T, out] (store) = x [T, in] w [out, in]^T. Throws shape_error.
template <class T, class Gemm>
void linear(backend<T, Gemm> const& ctx, args::in2<T> x, args::in2<T> w, args::out2<T> y, store how) {
  detail::multiply_linear<T>(ctx, x, w, y, how);
}
/// The same into the wider format that sums are taken in.
template <class T, class Gemm>
  requires stored_narrow<T>
void linear(backend<T, Gemm> const& ctx, args::in2<T> x, args::in2<T> w, args::out2<computed_as<T>> y,
            store how) {
  detail::multiply_linear<computed_as<T>>(ctx, x, w, y, how);
}

/// dx [T, in] (store) = dy [T, out] w [out, in]. Throws shape_error.
template <class T, class Gemm>
void linear_backward_input(backend<T, Gemm> const& ctx, args::in2<T> dy, args::in2<T> w, args::out2<T> dx,
                           store how) {
  detail::multiply_back<T>(ctx, dy, w, dx, how);
}
/// The same into the wider format that sums are taken in.
template <class T, class Gemm>
  requires stored_narrow<T>
void linear_backward_input(backend<T, Gemm> const& ctx, args::in2<T> dy, args::in2<T> w,
                           args::out2<computed_as<T>> dx, store how) {
  detail::multiply_back<computed_as<T>>(ctx, dy, w, dx, how);
}

/// dw [out, in] (store) = dy [T, out]^T x [T, in], in the format that sums are taken in. Throws shape_error.
template <class T, class Gemm>
void linear_backward_weight(backend<T, Gemm> const& ctx, args::in2<T> dy, args::in2<T> x,
                            args::out2<computed_as<T>> dw, store how) {
  detail::check_provider<T, computed_as<T>, Gemm>();
  check::shape("linear_backward_weight", "dy", dy, {x.rows(), dw.rows()});
  check::shape("linear_backward_weight", "dw", dw, {dy.columns(), x.columns()});
  auto const timing = detail::time_product(ctx, "linear_backward_weight", dw.rows(), dw.columns(), x.rows());
  Gemm::template multiply<T>(ctx.threads(), operand::transposed, operand::as_is, how, dy, x, dw);
}

namespace detail {

template <class C, class Y>
void add_to_rows(int threads, view<C const, 1> bias, view<Y, 2> y) {
  check::shape("add_bias", "bias", bias, {y.columns()});
  check::that(bias.contiguous(), "add_bias", "a bias with gaps", "neighbouring elements");
  for_ranges(threads, y.rows(), y.columns(), [&](range r) {
    for (index_t t = r.first; t < r.last; ++t) {
      Y* const row = y.row(t);
#pragma omp simd
      for (index_t o = 0; o < y.columns(); ++o) put(row[o], C(row[o]) + bias.data[o]);
    }
  });
}

}  // namespace detail

/// y [T, out] += bias [out] in every row. Throws shape_error.
template <class T, class Gemm, class C = computed_as<T>>
void add_bias(backend<T, Gemm> const& ctx, args::in1<C> bias, args::out2<T> y) {
  auto const timing = ctx.timed("add_bias", 2.0 * double(y.size()));
  detail::add_to_rows<C, T>(ctx.threads(), bias, y);
}
template <class T, class Gemm, class C = computed_as<T>>
  requires stored_narrow<T>
void add_bias(backend<T, Gemm> const& ctx, args::in1<C> bias, args::out2<C> y) {
  auto const timing = ctx.timed("add_bias", 2.0 * widths<T> * double(y.size()));
  detail::add_to_rows<C, C>(ctx.threads(), bias, y);
}

/// dbias [out] += the sum of dy [T, out] over its rows, taken in double and in the rows' order, whatever the
/// number of threads. Throws shape_error.
template <class T, class Gemm>
void add_bias_backward(backend<T, Gemm> const& ctx, args::in2<T> dy, args::out1<computed_as<T>> dbias) {
  check::shape("add_bias_backward", "dbias", dbias, {dy.columns()});
  auto const timing = ctx.timed("add_bias_backward", double(dy.size()));
  constexpr index_t block = 64;  // columns at a time: their sums stay in the first cache
  index_t const blocks = (dy.columns() + block - 1) / block;
  for_ranges(ctx.threads(), blocks, block * dy.rows(), [&](range r) {
    for (index_t b = r.first; b < r.last; ++b) {
      index_t const first = b * block;
      index_t const count = (std::min)(block, dy.columns() - first);
      std::array<double, std::size_t(block)> sums{};
      double* const sum = sums.data();
      for (index_t t = 0; t < dy.rows(); ++t) {
        T const* const row = dy.row(t) + first;
#pragma omp simd
        for (index_t i = 0; i < count; ++i) sum[i] += double(row[i]);
      }
      for (index_t i = 0; i < count; ++i) dbias(first + i) += computed_as<T>(sum[i]);
    }
  });
}

}  // namespace accrete::inline v0::cpu
