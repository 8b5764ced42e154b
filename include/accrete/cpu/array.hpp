#pragma once
#include <Eigen/Core>
#include <type_traits>

#include "accrete/core/view.hpp"

namespace accrete::inline v0::cpu::detail {

template <class T>
using array_of = Eigen::Array<std::remove_const_t<T>, Eigen::Dynamic, 1>;

/// `n` neighbouring elements as an Eigen array, for what plain loops do slowly: exponentials and roots.
template <class T>
auto array(T* first, index_t n) {
  using base = std::conditional_t<std::is_const_v<T>, array_of<T> const, array_of<T>>;
  return Eigen::Map<base>(first, n);
}

}  // namespace accrete::inline v0::cpu::detail
