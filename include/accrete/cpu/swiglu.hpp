#pragma once
#include <algorithm>

#include "accrete/backend/arguments.hpp"
#include "accrete/backend/check.hpp"
#include "accrete/cpu/array.hpp"
#include "accrete/cpu/context.hpp"
#include "accrete/cpu/parallel.hpp"

namespace accrete::inline v0::cpu {

namespace detail {

inline constexpr index_t exponential_cost = 4;  // elements of streaming that an exponential is worth

}  // namespace detail

/// gate|up [T, 2 F] -> silu(gate) * up [T, F], silu(g) = g / (1 + exp(-g)). Shazeer 2020. Throws shape_error.
template <class T, class Gemm>
void swiglu(backend<T, Gemm> const& ctx, args::in2<T> gate_up, args::out2<T> out) {
  index_t const width = out.columns();
  check::shape("swiglu", "gate|up", gate_up, {out.rows(), 2 * width});
  for_ranges(ctx.threads(), out.rows(), width * detail::exponential_cost, [&](range r) {
    for (index_t t = r.first; t < r.last; ++t) {
      auto const gate = detail::array(gate_up.row(t), width);
      auto const up = detail::array(gate_up.row(t) + width, width);
      detail::array(out.row(t), width) = gate * up / (T(1) + (-gate).exp());
    }
  });
}

/// gate|up [T, 2 F], dout [T, F] -> dgate|dup [T, 2 F] (replaced), with silu'(g) = sigma(g) (1 + g (1 -
/// sigma(g))). Throws shape_error.
template <class T, class Gemm>
void swiglu_backward(backend<T, Gemm> const& ctx, args::in2<T> gate_up, args::in2<T> dout,
                     args::out2<T> dgate_up) {
  index_t const width = dout.columns();
  check::shape("swiglu_backward", "gate|up", gate_up, {dout.rows(), 2 * width});
  check::shape("swiglu_backward", "dgate|dup", dgate_up, gate_up.extents);
  constexpr index_t chunk = 512;  // sigma of one chunk stays in the first cache
  for_ranges(ctx.threads(), dout.rows(), width * detail::exponential_cost, [&](range r) {
    alignas(64) T sigma[chunk];
    for (index_t t = r.first; t < r.last; ++t) {
      for (index_t first = 0; first < width; first += chunk) {
        index_t const n = (std::min)(chunk, width - first);
        T const* const gate = gate_up.row(t) + first;
        T const* const up = gate + width;
        T const* const upstream = dout.row(t) + first;
        T* const dgate = dgate_up.row(t) + first;
        T* const dup = dgate + width;
        detail::array(sigma, n) = T(1) / (T(1) + (-detail::array(gate, n)).exp());
#pragma omp simd
        for (index_t i = 0; i < n; ++i) {
          T const s = sigma[i];
          T const silu = gate[i] * s;
          dgate[i] = upstream[i] * up[i] * (s + silu * (T(1) - s));
          dup[i] = upstream[i] * silu;
        }
      }
    }
  });
}

}  // namespace accrete::inline v0::cpu
