#pragma once
#include <cstdint>
#include <type_traits>

#include "accrete/core/view.hpp"

/// What a backend's operations take, by element type and memory space. The aliases are not deduced: T comes
/// from the context alone, so a view of mutable elements may stand where a view of constant ones is read.
///
///   template <std::floating_point T>
///   void add(my_backend<T> const&, args::in2<T> a, args::in2<T> b, args::out2<T> out);
namespace accrete::inline v0::args {

template <class T, class Space = mem::host>
using in1 = view<std::type_identity_t<T> const, 1, Space>;
template <class T, class Space = mem::host>
using in2 = view<std::type_identity_t<T> const, 2, Space>;
template <class T, class Space = mem::host>
using out1 = view<std::type_identity_t<T>, 1, Space>;
template <class T, class Space = mem::host>
using out2 = view<std::type_identity_t<T>, 2, Space>;

/// One 32-bit number per token: identities, targets, positions.
template <class Space = mem::host>
using ids = view<std::int32_t const, 1, Space>;
/// Where documents begin and end: [documents + 1], the first is 0, the last the number of tokens.
template <class Space = mem::host>
using offsets = view<index_t const, 1, Space>;
template <class Space = mem::host>
using sums = view<double, 1, Space>;
/// Radians per position of each rotated pair, [head_dim / 2], in host memory whatever the backend's is.
using frequencies = view<double const, 1, mem::host>;

}  // namespace accrete::inline v0::args
