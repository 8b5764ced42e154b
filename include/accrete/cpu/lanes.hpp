#pragma once
#include <algorithm>
#include <concepts>
#include <Eigen/Core>

#include "accrete/core/bfloat16.hpp"
#include "accrete/core/view.hpp"
#include "accrete/cpu/halves.hpp"
#include "accrete/cpu/staging.hpp"

/// Runs of numbers taken a vector register at a time: what is chained in one loop here takes one pass, where
/// Eigen's expressions over whole runs take one for each line, and sums stay in registers, where g++ 12 keeps
/// those of a loop over a narrow format in memory and adds them one after the other.
namespace accrete::inline v0::cpu::detail {

/// As many numbers at a time as the widest vector register holds of f32.
inline constexpr index_t lane_count = 16;
template <class T>
using lanes_of = Eigen::Array<T, int(lane_count), 1>;
/// What is left over at the end of a run.
template <class T>
using few_lanes = Eigen::Array<T, Eigen::Dynamic, 1, Eigen::ColMajor, int(lane_count), 1>;

/// Numbers in whatever format, to compute with.
template <class Lanes, class Z>
Lanes load_lanes(Z const* z, index_t n) {
  if constexpr (std::same_as<Z, typename Lanes::Scalar>) {
    return Eigen::Map<Lanes const>(z, n);
  } else {
    Lanes wide(n);
    convert(z, Lanes::SizeAtCompileTime == lane_count ? lane_count : n, wide.data());  // known where it can be
    return wide;
  }
}

/// to [16] = lanes, rounded to the nearest. One instruction where the processor has one for it, which takes
/// what is below the smallest normal number for 0.
template <class C, class T>
void store_lanes(lanes_of<C> const& lanes, T* to) {
#if defined(__AVX512BF16__) && defined(__AVX512F__)
  if constexpr (std::same_as<C, float> && std::same_as<T, bfloat16>) {
    __m256bh const narrow = _mm512_cvtneps_pbh(_mm512_loadu_ps(lanes.data()));
    std::copy_n(reinterpret_cast<bfloat16 const*>(&narrow), lane_count, to);
    return;
  }
#endif
  C const* const from = lanes.data();
#pragma omp simd
  for (index_t j = 0; j < lane_count; ++j) put(to[j], from[j]);
}

/// to [n] = from, rounded; returns the sum of what was there before rounding. They may be one run.
template <class C, class T>
C store_and_sum(C const* from, index_t n, T* to) {
  lanes_of<C> even = lanes_of<C>::Zero(), odd = lanes_of<C>::Zero();
  auto const one = [&](index_t i, lanes_of<C>& sums) {
    lanes_of<C> const x = Eigen::Map<lanes_of<C> const>(from + i);
    sums += x;
    if constexpr (!std::same_as<C, T>) store_lanes<C>(x, to + i);
  };
  index_t i = 0;
  for (; i + 2 * lane_count <= n; i += 2 * lane_count) {
    one(i, even);
    one(i + lane_count, odd);
  }
  if (i + lane_count <= n) {
    one(i, even);
    i += lane_count;
  }
  C sum = (even + odd).sum();
  for (; i < n; ++i) {
    sum += from[i];
    put(to[i], from[i]);
  }
  return sum;
}

/// The sum of a_i b_i, in C.
template <class C, class T>
C dot(T const* a, T const* b, index_t n) {
  lanes_of<C> sums = lanes_of<C>::Zero();
  index_t i = 0;
  for (; i + lane_count <= n; i += lane_count)
    sums += load_lanes<lanes_of<C>>(a + i, lane_count) * load_lanes<lanes_of<C>>(b + i, lane_count);
  C sum = sums.sum();
  for (; i < n; ++i) sum += C(a[i]) * C(b[i]);
  return sum;
}

}  // namespace accrete::inline v0::cpu::detail
