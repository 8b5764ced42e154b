#pragma once
#include <algorithm>
#include <array>

#include "accrete/backend/arguments.hpp"
#include "accrete/backend/check.hpp"
#include "accrete/cpu/array.hpp"
#include "accrete/cpu/context.hpp"
#include "accrete/cpu/parallel.hpp"
#include "accrete/cpu/staging.hpp"

namespace accrete::inline v0::cpu {

namespace detail {

inline constexpr index_t exponential_cost = 4;  // elements of streaming that an exponential is worth
inline constexpr index_t swiglu_chunk = 512;  // a few buffers of one stay in the first cache

/// Calls body(row, first, count) for every chunk of [rows, width].
template <class Body>
void for_chunks(int threads, index_t rows, index_t width, Body const& body) {
  for_ranges(threads, rows, width * exponential_cost, [&](range r) {
    for (index_t t = r.first; t < r.last; ++t)
      for (index_t first = 0; first < width; first += swiglu_chunk)
        body(t, first, (std::min)(swiglu_chunk, width - first));
  });
}

}  // namespace detail

/// gate|up [T, 2 F] -> silu(gate) * up [T, F], silu(g) = g / (1 + exp(-g)). Shazeer 2020. Throws shape_error.
template <class T, class Gemm>
void swiglu(backend<T, Gemm> const& ctx, args::in2<T> gate_up, args::out2<T> out) {
  using C = computed_as<T>;
  index_t const width = out.columns();
  check::shape("swiglu", "gate|up", gate_up, {out.rows(), 2 * width});
  auto const timing = ctx.timed("swiglu", 3.0 * double(out.size()));
  detail::for_chunks(ctx.threads(), out.rows(), width, [&](index_t t, index_t first, index_t n) {
    alignas(64) std::array<std::array<C, detail::swiglu_chunk>, 3> room;
    auto const gate = detail::array(detail::widen(gate_up.row(t) + first, n, room[0].data()), n);
    auto const up = detail::array(detail::widen(gate_up.row(t) + width + first, n, room[1].data()), n);
    C* const y = detail::computed_at(out.row(t) + first, room[2].data());
    detail::array(y, n) = gate * up / (C(1) + (-gate).exp());
    detail::narrow(y, n, out.row(t) + first);
  });
}

/// gate|up [T, 2 F], dout [T, F] -> dgate|dup [T, 2 F] (replaced), with silu'(g) = sigma(g) (1 + g (1 -
/// sigma(g))). Throws shape_error.
template <class T, class Gemm>
void swiglu_backward(backend<T, Gemm> const& ctx, args::in2<T> gate_up, args::in2<T> dout,
                     args::out2<T> dgate_up) {
  using C = computed_as<T>;
  index_t const width = dout.columns();
  check::shape("swiglu_backward", "gate|up", gate_up, {dout.rows(), 2 * width});
  check::shape("swiglu_backward", "dgate|dup", dgate_up, gate_up.extents);
  auto const timing = ctx.timed("swiglu_backward", 5.0 * double(dout.size()));
  detail::for_chunks(ctx.threads(), dout.rows(), width, [&](index_t t, index_t first, index_t n) {
    alignas(64) std::array<std::array<C, detail::swiglu_chunk>, 2> room;
    C const* const gate = detail::widen(gate_up.row(t) + first, n, room[0].data());
    C* const sigma = room[1].data();
    detail::array(sigma, n) = C(1) / (C(1) + (-detail::array(gate, n)).exp());
    T const* const up = gate_up.row(t) + width + first;
    T const* const upstream = dout.row(t) + first;
    T* const dgate = dgate_up.row(t) + first;
    T* const dup = dgate_up.row(t) + width + first;
#pragma omp simd
    for (index_t i = 0; i < n; ++i) {
      C const s = sigma[i];
      C const silu = gate[i] * s;
      C const d = C(upstream[i]);
      detail::put(dgate[i], d * C(up[i]) * (s + silu * (C(1) - s)));
      detail::put(dup[i], d * silu);
    }
  });
}

}  // namespace accrete::inline v0::cpu
