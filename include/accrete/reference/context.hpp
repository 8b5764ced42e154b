#pragma once
#include <concepts>
#include <type_traits>

#include "accrete/backend/types.hpp"
#include "accrete/core/view.hpp"

namespace accrete::inline v0::reference {

/// The context of the plain-loop operations: it holds nothing. Every sum is taken in double, in the order of
/// the indices, whatever T is, so that a result is as near to the equation as its type allows.
template <std::floating_point T = double>
struct backend {
  using scalar = T;
  using real = T;
  using logit = T;
  using space = mem::host;
  static constexpr char const* name() { return std::is_same_v<T, float> ? "reference, f32" : "reference, f64"; }
};

namespace detail {

template <class T>
void put(T& out, double value, store how) {
  out = static_cast<T>(how == store::add ? static_cast<double>(out) + value : value);
}

}  // namespace detail

}  // namespace accrete::inline v0::reference
