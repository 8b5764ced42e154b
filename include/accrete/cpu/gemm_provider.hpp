#pragma once
#include <concepts>

#include "accrete/backend/types.hpp"
#include "accrete/core/view.hpp"

namespace accrete::inline v0::cpu {

/// Whether an operand of a product is read as it lies, or transposed.
enum class operand { as_is, transposed };

/// A matrix product from elsewhere. G is an empty class with
///   static char const* name();
///   template <class T, class R> static void multiply(int threads, operand of_a, operand of_b, store how,
///                                                    view<T const, 2> a, view<T const, 2> b, view<R, 2> c);
///   template <class T> static bool multiplies_fast();  // no slower than float, on the processor it runs on
/// c [m, n] (+)= op(a) [m, k] op(b) [k, n]; a lies as [m, k] or, transposed, [k, m], b likewise. All are
/// row-major with any row distance. R is T or, where T is bfloat16, also float, in which sums are taken then.
/// Shapes are the caller's business, and so are operands that share memory with c, which must not be. Any
/// extent may be 0: with k = 0 the product is zero. Same bits for same operands and threads. With `threads` = 1
/// nothing but the calling thread works, so that parts of a parallel region may call it.
template <class G, class T, class R = T>
concept gemm_provider = requires(int threads, operand which, store how, view<T const, 2> in, view<R, 2> out) {
  { G::name() } -> std::convertible_to<char const*>;
  { G::template multiplies_fast<T>() } -> std::convertible_to<bool>;
  G::template multiply<T>(threads, which, which, how, in, in, out);
};

}  // namespace accrete::inline v0::cpu
