#pragma once
#include <concepts>

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
  for (index_t t = 0; t < dx.rows(); ++t) {
    for (index_t i = 0; i < dx.columns(); ++i) {
      double sum = 0;
      for (index_t o = 0; o < dy.columns(); ++o) sum += double(dy(t, o)) * double(w(o, i));
      detail::put(dx(t, i), sum, how);
    }
  }
}

/// dw = dy^T x: dy [T, out], x [T, in] -> dw [out, in].
template <std::floating_point T>
void linear_backward_weight(backend<T> const&, args::in2<T> dy, args::in2<T> x, args::out2<T> dw, store how) {
  check::shape("linear_backward_weight", "x", x, {dy.rows(), x.columns()});
  check::shape("linear_backward_weight", "dw", dw, {dy.columns(), x.columns()});
  for (index_t o = 0; o < dw.rows(); ++o) {
    for (index_t i = 0; i < dw.columns(); ++i) {
      double sum = 0;
      for (index_t t = 0; t < x.rows(); ++t) sum += double(dy(t, o)) * double(x(t, i));
      detail::put(dw(o, i), sum, how);
    }
  }
}

}  // namespace accrete::inline v0::reference
