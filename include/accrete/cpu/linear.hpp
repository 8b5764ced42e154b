#pragma once
#include <algorithm>
#include <array>
#include <cstddef>

#include "accrete/backend/arguments.hpp"
#include "accrete/backend/check.hpp"
#include "accrete/backend/types.hpp"
#include "accrete/cpu/context.hpp"
#include "accrete/cpu/parallel.hpp"

namespace accrete::inline v0::cpu {

/// y [T, out] (store) = x [T, in] w [out, in]^T. Throws shape_error.
template <class T, gemm_provider<T> Gemm>
void linear(backend<T, Gemm> const& ctx, args::in2<T> x, args::in2<T> w, args::out2<T> y, store how) {
  check::shape("linear", "x", x, {y.rows(), w.columns()});
  check::shape("linear", "y", y, {x.rows(), w.rows()});
  Gemm::template multiply<T>(ctx.threads(), operand::as_is, operand::transposed, how, x, w, y);
}

/// dx [T, in] (store) = dy [T, out] w [out, in]. Throws shape_error.
template <class T, gemm_provider<T> Gemm>
void linear_backward_input(backend<T, Gemm> const& ctx, args::in2<T> dy, args::in2<T> w, args::out2<T> dx,
                           store how) {
  check::shape("linear_backward_input", "dy", dy, {dx.rows(), w.rows()});
  check::shape("linear_backward_input", "dx", dx, {dy.rows(), w.columns()});
  Gemm::template multiply<T>(ctx.threads(), operand::as_is, operand::as_is, how, dy, w, dx);
}

/// dw [out, in] (store) = dy [T, out]^T x [T, in]. Throws shape_error.
template <class T, gemm_provider<T> Gemm>
void linear_backward_weight(backend<T, Gemm> const& ctx, args::in2<T> dy, args::in2<T> x, args::out2<T> dw,
                            store how) {
  check::shape("linear_backward_weight", "dy", dy, {x.rows(), dw.rows()});
  check::shape("linear_backward_weight", "dw", dw, {dy.columns(), x.columns()});
  Gemm::template multiply<T>(ctx.threads(), operand::transposed, operand::as_is, how, dy, x, dw);
}

/// y [T, out] += bias [out] in every row. Throws shape_error.
template <class T, class Gemm>
void add_bias(backend<T, Gemm> const& ctx, args::in1<T> bias, args::out2<T> y) {
  check::shape("add_bias", "bias", bias, {y.columns()});
  check::that(bias.contiguous(), "add_bias", "a bias with gaps", "neighbouring elements");
  for_ranges(ctx.threads(), y.rows(), y.columns(), [&](range r) {
    for (index_t t = r.first; t < r.last; ++t) {
      T* const row = y.row(t);
#pragma omp simd
      for (index_t o = 0; o < y.columns(); ++o) row[o] += bias.data[o];
    }
  });
}

/// dbias [out] += the sum of dy [T, out] over its rows, taken in double and in the rows' order, whatever the
/// number of threads. Throws shape_error.
template <class T, class Gemm>
void add_bias_backward(backend<T, Gemm> const& ctx, args::in2<T> dy, args::out1<T> dbias) {
  check::shape("add_bias_backward", "dbias", dbias, {dy.columns()});
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
      for (index_t i = 0; i < count; ++i) dbias(first + i) += T(sum[i]);
    }
  });
}

}  // namespace accrete::inline v0::cpu
