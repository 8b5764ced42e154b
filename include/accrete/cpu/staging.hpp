#pragma once
#include <concepts>
#include <type_traits>

#include "accrete/core/bfloat16.hpp"
#include "accrete/core/half.hpp"
#include "accrete/core/view.hpp"

/// Numbers are stored in one format and computed with in another. What converts them is nothing where the two
/// are the same; where bfloat16 is stored, they go through a buffer of floats that the caller holds.
namespace accrete::inline v0::cpu {

namespace detail {

template <class T>
struct computed {
  using type = T;
};
template <>
struct computed<bfloat16> {
  using type = float;
};
template <>
struct computed<half> {
  using type = float;
};

}  // namespace detail

/// What numbers stored as T are computed in.
template <class T>
using computed_as = typename detail::computed<T>::type;
/// How many of the one are as long as one of the other.
template <class T>
inline constexpr double widths = double(sizeof(computed_as<T>)) / double(sizeof(T));
/// What logits lie in beside matrices of T. With bfloat16 that is half as well: less memory, so that slices are
/// longer and heads are read less often; relative to the target's, a logit near the largest keeps eleven bits.
template <class T>
using logits_as = std::conditional_t<std::same_as<T, bfloat16>, half, T>;
template <class T>
concept stored_narrow = !std::same_as<T, computed_as<T>>;

namespace detail {

/// place = value, in the place's format. g++ 12 makes vector instructions of a loop over it, where it does not
/// of one that assigns objects of a class.
template <class T, class C>
void put(T& place, C value) {
  place = T(value);
}
inline void put(bfloat16& place, float value) {
  place.bits = bfloat16(value).bits;
}

/// out [n] = in [n], each number in its own format.
template <class From, class To>
void convert(From const* from, index_t n, To* to) {
#pragma omp simd
  for (index_t i = 0; i < n; ++i) put(to[i], computed_as<From>(from[i]));
}

/// `n` stored numbers, ready to compute with: where they are, or in `room`.
template <class T>
T const* widen(T const* x, index_t, T*) {
  return x;
}
inline float const* widen(bfloat16 const* x, index_t n, float* room) {
  convert(x, n, room);
  return room;
}
/// Where results that will be stored at y are to be computed: there, or in `room`.
template <class T>
T* computed_at(T* y, T*) {
  return y;
}
inline float* computed_at(bfloat16*, float* room) {
  return room;
}
/// Stores what was computed there.
template <class T>
void narrow(T const*, index_t, T*) {}
inline void narrow(float const* computed, index_t n, bfloat16* y) {
  convert(computed, n, y);
}

}  // namespace detail

}  // namespace accrete::inline v0::cpu
