#pragma once
#include <concepts>

#include "accrete/backend/types.hpp"
#include "accrete/core/view.hpp"

namespace accrete::inline v0::cpu {

/// Whether an operand of a product is read as it lies, or transposed.
enum class operand { as_is, transposed };

/// A matrix product from elsewhere. G is an empty class with
///   static char const* name();
///   template <class T> static void multiply(int threads, operand of_a, operand of_b, store how,
///                                           view<T const, 2> a, view<T const, 2> b, view<T, 2> c);
/// c [m, n] (+)= op(a) [m, k] op(b) [k, n]; a lies as [m, k] or, transposed, [k, m], b likewise. All are
/// row-major with any row distance. Shapes are the caller's business, and so are operands that share memory
/// with c, which must not be. Any extent may be 0: with k = 0 the product is zero. Same bits for same operands
/// and threads. With `threads` = 1 nothing but the calling thread works, so that parts of a parallel region may
/// call it.
template <class G, class T>
concept gemm_provider = requires(int threads, operand which, store how, view<T const, 2> in, view<T, 2> out) {
  { G::name() } -> std::convertible_to<char const*>;
  G::template multiply<T>(threads, which, which, how, in, in, out);
};

}  // namespace accrete::inline v0::cpu
