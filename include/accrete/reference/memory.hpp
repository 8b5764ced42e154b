#pragma once
#include <concepts>

#include "accrete/backend/arguments.hpp"
#include "accrete/backend/check.hpp"
#include "accrete/reference/context.hpp"

namespace accrete::inline v0::reference {

/// out = in, both [n].
template <std::floating_point T>
void copy(backend<T> const&, args::in1<T> in, args::out1<T> out) {
  check::shape("copy", "out", out, in.extents);
  for (index_t i = 0; i < in.rows(); ++i) out(i) = in(i);
}

/// out = in, both [m, n].
template <std::floating_point T>
void copy(backend<T> const&, args::in2<T> in, args::out2<T> out) {
  check::shape("copy", "out", out, in.extents);
  for (index_t i = 0; i < in.rows(); ++i)
    for (index_t j = 0; j < in.columns(); ++j) out(i, j) = in(i, j);
}

template <std::floating_point T>
void upload(backend<T> const& ctx, args::in1<T> in, args::out1<T> out) {
  copy(ctx, in, out);
}

template <std::floating_point T>
void download(backend<T> const& ctx, args::in1<T> in, args::out1<T> out) {
  copy(ctx, in, out);
}

template <std::floating_point T>
void zero(backend<T> const&, args::out1<T> out) {
  for (index_t i = 0; i < out.rows(); ++i) out(i) = T(0);
}

}  // namespace accrete::inline v0::reference
