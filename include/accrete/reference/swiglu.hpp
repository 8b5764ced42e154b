#pragma once
#include <cmath>
#include <concepts>

#include "accrete/backend/arguments.hpp"
#include "accrete/backend/check.hpp"
#include "accrete/reference/context.hpp"

namespace accrete::inline v0::reference {

/// gate|up [T, 2 F] -> silu(gate) * up [T, F], silu(g) = g / (1 + exp(-g)). Shazeer 2020.
template <std::floating_point T>
void swiglu(backend<T> const&, args::in2<T> gate_up, args::out2<T> out) {
  index_t const width = out.columns();
  check::shape("swiglu", "gate|up", gate_up, {out.rows(), 2 * width});
  for (index_t t = 0; t < out.rows(); ++t) {
    for (index_t i = 0; i < width; ++i) {
      double const gate = double(gate_up(t, i));
      double const up = double(gate_up(t, width + i));
      out(t, i) = static_cast<T>(gate / (1.0 + std::exp(-gate)) * up);
    }
  }
}

/// gate|up [T, 2 F], dout [T, F] -> dgate|dup [T, 2 F] (replaced), with
/// silu'(g) = sigma(g) (1 + g (1 - sigma(g))).
template <std::floating_point T>
void swiglu_backward(backend<T> const&, args::in2<T> gate_up, args::in2<T> dout, args::out2<T> dgate_up) {
  index_t const width = dout.columns();
  check::shape("swiglu_backward", "gate|up", gate_up, {dout.rows(), 2 * width});
  check::shape("swiglu_backward", "dgate|dup", dgate_up, gate_up.extents);
  for (index_t t = 0; t < dout.rows(); ++t) {
    for (index_t i = 0; i < width; ++i) {
      double const gate = double(gate_up(t, i));
      double const up = double(gate_up(t, width + i));
      double const sigma = 1.0 / (1.0 + std::exp(-gate));
      double const upstream = double(dout(t, i));
      dgate_up(t, i) = static_cast<T>(upstream * up * sigma * (1.0 + gate * (1.0 - sigma)));
      dgate_up(t, width + i) = static_cast<T>(upstream * gate * sigma);
    }
  }
}

}  // namespace accrete::inline v0::reference
