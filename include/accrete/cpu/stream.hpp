#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "accrete/core/view.hpp"

namespace accrete::inline v0::cpu::detail {

/// to [n] = from [n], past the caches: for a few pieces of a result larger than they are, which would push
/// other things out and be fetched first only to be overwritten. `to` begins on 16 bytes, or this is a plain
/// copy.
template <class T>
void stream_copy(T const* from, index_t n, T* to) {
  static_assert(std::is_trivially_copyable_v<T>);
  index_t done = 0;
#if defined(__SSE2__)
  if (reinterpret_cast<std::uintptr_t>(to) % sizeof(__m128i) == 0) {
    constexpr auto each = index_t(sizeof(__m128i) / sizeof(T));
    for (; done + each <= n; done += each)
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + done),
                       _mm_loadu_si128(reinterpret_cast<__m128i const*>(from + done)));
    _mm_sfence();  // before any other thread is told that they are there
  }
#endif
  if (done < n) std::memcpy(static_cast<void*>(to + done), from + done, std::size_t(n - done) * sizeof(T));
}

/// Whether a result is larger than what a core's caches hold.
template <class T>
bool is_far(view<T, 2> const& result) {
  constexpr index_t many_bytes = index_t(8) << 20;
  return result.rows() * result.stride * index_t(sizeof(T)) > many_bytes;
}

}  // namespace accrete::inline v0::cpu::detail
