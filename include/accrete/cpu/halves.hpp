#pragma once
#if defined(__AVX512F__) || defined(__F16C__)
#include <immintrin.h>
#endif

#include "accrete/core/half.hpp"
#include "accrete/core/view.hpp"

/// Runs of half to float and back. Compilers make no vector instructions of the conversions that half defines,
/// and processors have some for them.
namespace accrete::inline v0::cpu::detail {

/// to [n] = from [n], exact.
inline void convert(half const* from, index_t n, float* to) {
  index_t done = 0;
#if defined(__AVX512F__)
  for (; done + 16 <= n; done += 16)
    _mm512_storeu_ps(to + done,
                     _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<__m256i const*>(from + done))));
#elif defined(__F16C__)
  for (; done + 8 <= n; done += 8)
    _mm256_storeu_ps(to + done,
                     _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<__m128i const*>(from + done))));
#endif
  for (; done < n; ++done) to[done] = from[done];
}

inline float const* widen(half const* x, index_t n, float* room) {
  convert(x, n, room);
  return room;
}

/// to [n] = from [n] - origin, rounded to the nearest.
inline void convert_from(float origin, float const* from, index_t n, half* to) {
  index_t done = 0;
#if defined(__AVX512F__)
  __m512 const zero = _mm512_set1_ps(origin);
  for (; done + 16 <= n; done += 16)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + done),
                        _mm512_cvtps_ph(_mm512_sub_ps(_mm512_loadu_ps(from + done), zero),
                                        _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#elif defined(__F16C__)
  __m256 const zero = _mm256_set1_ps(origin);
  for (; done + 8 <= n; done += 8)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + done),
                     _mm256_cvtps_ph(_mm256_sub_ps(_mm256_loadu_ps(from + done), zero),
                                     _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#endif
  for (; done < n; ++done) to[done] = half(from[done] - origin);
}

}  // namespace accrete::inline v0::cpu::detail
