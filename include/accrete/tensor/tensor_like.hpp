#pragma once
#include <concepts>
#include <type_traits>

#include "accrete/core/view.hpp"
#include "accrete/tensor/tensor.hpp"

namespace accrete::inline v0 {

/// What every tensor of the library looks like from outside: a value type, a rank, a memory space, and a view.
/// Owning tensors and views both are; Eigen and xtensor objects become one through tensor/{eigen,xtensor}.hpp.
template <class X>
concept tensor_like = requires {
  typename X::value_type;
  typename X::space;
  { X::rank } -> std::convertible_to<int>;
}
&&(std::is_convertible_v<X&, view<typename X::value_type, X::rank, typename X::space>> ||
   std::is_convertible_v<X&, view<typename X::value_type const, X::rank, typename X::space>>);

static_assert(tensor_like<tensor<float, 2>>);
static_assert(tensor_like<tensor<double, 1, mem::device>>);
static_assert(tensor_like<view<float const, 3>>);
static_assert(!tensor_like<float*>);

}  // namespace accrete::inline v0
