#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <vector>

#include "accrete/backend/arguments.hpp"
#include "accrete/backend/check.hpp"
#include "accrete/backend/types.hpp"
#include "accrete/reference/context.hpp"

namespace accrete::inline v0::reference {

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
  std::vector<double> sums(std::size_t(dx.columns()));  // a row of dx, so that w is read along its rows
  for (index_t t = 0; t < dx.rows(); ++t) {
    std::fill(sums.begin(), sums.end(), 0.0);
    for (index_t o = 0; o < dy.columns(); ++o) {
      for (index_t i = 0; i < dx.columns(); ++i) sums[std::size_t(i)] += double(dy(t, o)) * double(w(o, i));
    }
    for (index_t i = 0; i < dx.columns(); ++i) detail::put(dx(t, i), sums[std::size_t(i)], how);
  }
}

/// dw = dy^T x: dy [T, out], x [T, in] -> dw [out, in].
template <std::floating_point T>
void linear_backward_weight(backend<T> const&, args::in2<T> dy, args::in2<T> x, args::out2<T> dw, store how) {
  check::shape("linear_backward_weight", "x", x, {dy.rows(), x.columns()});
  check::shape("linear_backward_weight", "dw", dw, {dy.columns(), x.columns()});
  std::vector<double> sums(std::size_t(dw.columns()));  // a row of dw, so that x is read along its rows
  for (index_t o = 0; o < dw.rows(); ++o) {
    std::fill(sums.begin(), sums.end(), 0.0);
    for (index_t t = 0; t < x.rows(); ++t) {
      for (index_t i = 0; i < dw.columns(); ++i) sums[std::size_t(i)] += double(dy(t, o)) * double(x(t, i));
    }
    for (index_t i = 0; i < dw.columns(); ++i) detail::put(dw(o, i), sums[std::size_t(i)], how);
  }
}

}  // namespace accrete::inline v0::reference
