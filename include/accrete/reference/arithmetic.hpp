#pragma once
#include <concepts>

#include "accrete/backend/arguments.hpp"
#include "accrete/backend/check.hpp"
#include "accrete/reference/context.hpp"

namespace accrete::inline v0::reference {

/// out = a + b; out may be a or b.
template <std::floating_point T>
void add(backend<T> const&, args::in2<T> a, args::in2<T> b, args::out2<T> out) {
  check::shape("add", "b", b, a.extents);
  check::shape("add", "out", out, a.extents);
  for (index_t t = 0; t < a.rows(); ++t) {
    for (index_t i = 0; i < a.columns(); ++i) out(t, i) = a(t, i) + b(t, i);
  }
}

/// out = factor * a; out may be a.
template <std::floating_point T>
void scale(backend<T> const&, double factor, args::in2<T> a, args::out2<T> out) {
  check::shape("scale", "out", out, a.extents);
  for (index_t t = 0; t < a.rows(); ++t) {
    for (index_t i = 0; i < a.columns(); ++i) out(t, i) = static_cast<T>(factor * double(a(t, i)));
  }
}

/// out += factor * a.
template <std::floating_point T>
void accumulate(backend<T> const&, double factor, args::in2<T> a, args::out2<T> out) {
  check::shape("accumulate", "out", out, a.extents);
  for (index_t t = 0; t < a.rows(); ++t) {
    for (index_t i = 0; i < a.columns(); ++i) {
      detail::put(out(t, i), factor * double(a(t, i)), store::add);
    }
  }
}

}  // namespace accrete::inline v0::reference
