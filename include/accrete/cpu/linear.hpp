#pragma once
#include "accrete/backend/arguments.hpp"
#include "accrete/backend/check.hpp"
#include "accrete/backend/types.hpp"
#include "accrete/cpu/context.hpp"

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

}  // namespace accrete::inline v0::cpu
