#pragma once
#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>

#include "accrete/backend/arguments.hpp"
#include "accrete/backend/check.hpp"
#include "accrete/backend/types.hpp"
#include "accrete/reference/context.hpp"

namespace accrete::inline v0::reference {

namespace detail {

/// out_i = sum_k a(k) b(k, i), or added to it, i over the columns of b: some columns at a time, so that b is
/// read along its rows and no memory is asked for.
template <class T, class Factor>
void sum_of_rows(Factor const& a, args::in2<T> b, T* out, store how) {
  constexpr index_t block = 64;
  for (index_t first = 0; first < b.columns(); first += block) {
    index_t const count = (std::min)(block, b.columns() - first);
    std::array<double, std::size_t(block)> sums{};
    for (index_t k = 0; k < b.rows(); ++k) {
      T const* const row = b.row(k) + first;
      double const factor = double(a(k));
      for (index_t i = 0; i < count; ++i) sums[std::size_t(i)] += factor * double(row[i]);
    }
    for (index_t i = 0; i < count; ++i) put(out[first + i], sums[std::size_t(i)], how);
  }
}

}  // namespace detail

/// y = x W^T: x [T, in], w [out, in] -> y [T, out].
template <std::floating_point T>
void linear(backend<T> const&, args::in2<T> x, args::in2<T> w, args::out2<T> y, store how) {
  check::shape("linear", "w", w, {w.rows(), x.columns()});
  check::shape("linear", "y", y, {x.rows(), w.rows()});
  for (index_t t = 0; t < y.rows(); ++t) {
    for (index_t o = 0; o < y.columns(); ++o) {
      double sum = 0;
      for (index_t i = 0; i < x.columns(); ++i) sum += double(x(t, i)) * double(w(o, i));
      detail::put(y(t, o), sum, how);
    }
  }
}

/// dx = dy W: dy [T, out], w [out, in] -> dx [T, in].
template <std::floating_point T>
void linear_backward_input(backend<T> const&, args::in2<T> dy, args::in2<T> w, args::out2<T> dx, store how) {
  check::shape("linear_backward_input", "w", w, {dy.columns(), w.columns()});
  check::shape("linear_backward_input", "dx", dx, {dy.rows(), w.columns()});
  for (index_t t = 0; t < dx.rows(); ++t) {
    detail::sum_of_rows<T>([&](index_t o) { return dy(t, o); }, w, dx.row(t), how);
  }
}

/// dw = dy^T x: dy [T, out], x [T, in] -> dw [out, in].
template <std::floating_point T>
void linear_backward_weight(backend<T> const&, args::in2<T> dy, args::in2<T> x, args::out2<T> dw, store how) {
  check::shape("linear_backward_weight", "x", x, {dy.rows(), x.columns()});
  check::shape("linear_backward_weight", "dw", dw, {dy.columns(), x.columns()});
  for (index_t o = 0; o < dw.rows(); ++o) {
    detail::sum_of_rows<T>([&](index_t t) { return dy(t, o); }, x, dw.row(o), how);
  }
}

/// y [T, out] += bias [out] in every row.
template <std::floating_point T>
void add_bias(backend<T> const&, args::in1<T> bias, args::out2<T> y) {
  check::shape("add_bias", "bias", bias, {y.columns()});
  for (index_t t = 0; t < y.rows(); ++t) {
    for (index_t o = 0; o < y.columns(); ++o) y(t, o) += bias(o);
  }
}

/// dbias [out] += the sum of dy [T, out] over its rows.
template <std::floating_point T>
void add_bias_backward(backend<T> const&, args::in2<T> dy, args::out1<T> dbias) {
  check::shape("add_bias_backward", "dbias", dbias, {dy.columns()});
  for (index_t o = 0; o < dy.columns(); ++o) {
    double sum = 0;
    for (index_t t = 0; t < dy.rows(); ++t) sum += double(dy(t, o));
    detail::put(dbias(o), sum, store::add);
  }
}

}  // namespace accrete::inline v0::reference
