#pragma once
#include <algorithm>
#include <cmath>
#include <type_traits>

#include "accrete/backend/arguments.hpp"
#include "accrete/backend/check.hpp"
#include "accrete/backend/types.hpp"
#include "accrete/cpu/array.hpp"
#include "accrete/cpu/context.hpp"
#include "accrete/cpu/parallel.hpp"
#include "accrete/cpu/staging.hpp"

/// RMS norms of rows, and of the heads inside rows. A row norm is the case of one head.
namespace accrete::inline v0::cpu {

namespace detail {

/// Rows of one partial sum of a gain's gradient. Fixed, so that the sum's order doesn't hang on the threads.
inline constexpr index_t gain_block = 64;

/// y = gain * x * r; returns r = 1 / sqrt(mean(x^2) + eps). y may be x. X and Y are formats of C.
template <bool HasGain, class C, class X, class Y>
C norm_vector(X const* x, index_t n, [[maybe_unused]] C const* gain, double eps, Y* y) {
  C squares = 0;
#pragma omp simd reduction(+ : squares)
  for (index_t i = 0; i < n; ++i) squares += C(x[i]) * C(x[i]);
  C const r = C(1.0 / std::sqrt(double(squares) / double(n) + eps));
#pragma omp simd
  for (index_t i = 0; i < n; ++i) {
    if constexpr (HasGain) {
      put(y[i], gain[i] * (C(x[i]) * r));
    } else {
      put(y[i], C(x[i]) * r);
    }
  }
  return r;
}

/// With u = gain * dy: dx (store) = r (u - x r^2 mean(u x)), dgain += dy x r. dx may be dy.
template <bool HasGain, bool HasGainGradient, store How, class C, class X>
void norm_vector_backward(X const* x, index_t n, [[maybe_unused]] C const* gain, C r, X const* dy, X* dx,
                          [[maybe_unused]] C* dgain) {
  auto const upstream = [=](index_t i) {
    if constexpr (HasGain) {
      return gain[i] * C(dy[i]);
    } else {
      return C(dy[i]);
    }
  };
  C projection = 0;
#pragma omp simd reduction(+ : projection)
  for (index_t i = 0; i < n; ++i) projection += upstream(i) * C(x[i]);
  C const pull = projection / C(n) * r * r;
#pragma omp simd
  for (index_t i = 0; i < n; ++i) {
    if constexpr (HasGainGradient) dgain[i] += C(dy[i]) * (C(x[i]) * r);
    C const g = r * (upstream(i) - C(x[i]) * pull);
    if constexpr (How == store::add) {
      put(dx[i], C(dx[i]) + g);
    } else {
      put(dx[i], g);
    }
  }
}

/// Calls body(true_type or false_type).
template <class Body>
void with_flag(bool flag, Body const& body) {
  if (flag) {
    body(std::true_type{});
  } else {
    body(std::false_type{});
  }
}

template <class T>
void check_gain(char const* operation, char const* argument, view<T const, 1> gain, index_t n) {
  if (gain.empty()) return;
  check::shape(operation, argument, gain, {n});
  check::that(gain.contiguous(), operation, "a gain with gaps", "neighbouring elements");
}

/// A vector, one number per row, as the matrix of one column that it is.
template <class T>
view<T, 2> as_column(view<T, 1> v) {
  return {v.data, {v.rows(), 1}, v.stride};
}

template <class C, class X, class Y, class T, class Gemm>
void norm_heads(backend<T, Gemm> const& ctx, view<X const, 2> x, view<C const, 1> gain, double eps, view<Y, 2> y,
                view<C, 2> rstd) {
  index_t const heads = rstd.columns();
  index_t const n = x.columns() / heads;
  with_flag(!gain.empty(), [&](auto has_gain) {
    for_ranges(ctx.threads(), x.rows(), x.columns(), [&](range r) {
      for (index_t t = r.first; t < r.last; ++t) {
        for (index_t h = 0; h < heads; ++h) {
          rstd(t, h) =
              norm_vector<decltype(has_gain)::value, C>(x.row(t) + h * n, n, gain.data, eps, y.row(t) + h * n);
        }
      }
    });
  });
}

template <class C, class X, class T, class Gemm>
void norm_heads_backward(backend<T, Gemm> const& ctx, view<X const, 2> x, view<C const, 1> gain,
                         view<C const, 2> rstd, view<X const, 2> dy, view<X, 2> dx, view<C, 1> dgain, store how) {
  index_t const rows = x.rows();
  index_t const heads = rstd.columns();
  index_t const n = x.columns() / heads;
  bool const sums = !gain.empty() && !dgain.empty();
  index_t const blocks = (rows + gain_block - 1) / gain_block;
  C* const partial = sums ? ctx.template scratch<C>(blocks * n) : nullptr;  // [blocks, n]
  with_flag(!gain.empty(), [&](auto has_gain) {
    with_flag(sums, [&](auto has_sums) {
      with_flag(how == store::add, [&](auto adds) {
        constexpr store way = decltype(adds)::value ? store::add : store::replace;
        for_parts(ctx.threads(), blocks, [&](index_t block) {
          C* const into = sums ? partial + block * n : nullptr;
          if (sums) std::fill_n(into, n, C(0));
          for (index_t t = block * gain_block; t < (std::min)(rows, (block + 1) * gain_block); ++t) {
            for (index_t h = 0; h < heads; ++h) {
              norm_vector_backward<decltype(has_gain)::value, decltype(has_sums)::value, way, C>(
                  x.row(t) + h * n, n, gain.data, rstd(t, h), dy.row(t) + h * n, dx.row(t) + h * n, into);
            }
          }
        });
      });
    });
  });
  if (!sums) return;
  for (index_t block = 1; block < blocks; ++block) array(partial, n) += array(partial + block * n, n);
  if (blocks > 0) array(dgain.data, n) += array(partial, n);
}

template <class C, class Y, class T, class Gemm>
void norm_rows(backend<T, Gemm> const& ctx, view<C const, 2> x, view<C const, 1> gain, double eps, view<Y, 2> y,
               view<C, 1> rstd) {
  check_gain<C>("rms_norm", "gain", gain, x.columns());
  check::shape("rms_norm", "y", y, x.extents);
  check::shape("rms_norm", "rstd", rstd, {x.rows()});
  auto const timing = ctx.timed("rms_norm", double(x.size() * index_t(sizeof(C) + sizeof(Y))) / double(sizeof(T)));
  norm_heads<C, C, Y>(ctx, x, gain, eps, y, as_column(rstd));
}

template <class C, class Y, class T, class Gemm>
void norm_sum(backend<T, Gemm> const& ctx, view<C const, 2> a, view<C const, 2> b, view<C, 2> sum,
              view<C const, 1> gain, double eps, view<Y, 2> y, view<C, 1> rstd) {
  index_t const n = a.columns();
  check_gain<C>("add_rms_norm", "gain", gain, n);
  check::shape("add_rms_norm", "b", b, a.extents);
  check::shape("add_rms_norm", "sum", sum, a.extents);
  check::shape("add_rms_norm", "y", y, a.extents);
  check::shape("add_rms_norm", "rstd", rstd, {a.rows()});
  auto const timing =
      ctx.timed("add_rms_norm", double(a.size() * index_t(3 * sizeof(C) + sizeof(Y))) / double(sizeof(T)));
  with_flag(!gain.empty(), [&](auto has_gain) {
    for_ranges(ctx.threads(), a.rows(), 2 * n, [&](range r) {
      for (index_t t = r.first; t < r.last; ++t) {
        C const* const p = a.row(t);
        C const* const q = b.row(t);
        C* const s = sum.row(t);
#pragma omp simd
        for (index_t i = 0; i < n; ++i) s[i] = p[i] + q[i];
        rstd(t) = norm_vector<decltype(has_gain)::value, C>(s, n, gain.data, eps, y.row(t));
      }
    });
  });
}

}  // namespace detail

/// x [T, D], gain [D] (empty: no gain) -> y [T, D], rstd [T]. y may be x. Throws shape_error.
template <class T, class Gemm>
void rms_norm(backend<T, Gemm> const& ctx, args::in2<computed_as<T>> x, args::in1<computed_as<T>> gain, double eps,
              args::out2<computed_as<T>> y, args::out1<computed_as<T>> rstd) {
  detail::norm_rows<computed_as<T>, computed_as<T>>(ctx, x, gain, eps, y, rstd);
}
/// The same for who only multiplies y by matrices.
template <class T, class Gemm>
  requires stored_narrow<T>
void rms_norm(backend<T, Gemm> const& ctx, args::in2<computed_as<T>> x, args::in1<computed_as<T>> gain, double eps,
              args::out2<T> y, args::out1<computed_as<T>> rstd) {
  detail::norm_rows<computed_as<T>, T>(ctx, x, gain, eps, y, rstd);
}

/// sum = a + b, y = norm(sum), in one pass; sum may be a or b. All [T, D], rstd [T]. Throws shape_error.
template <class T, class Gemm>
void add_rms_norm(backend<T, Gemm> const& ctx, args::in2<computed_as<T>> a, args::in2<computed_as<T>> b,
                  args::out2<computed_as<T>> sum, args::in1<computed_as<T>> gain, double eps,
                  args::out2<computed_as<T>> y, args::out1<computed_as<T>> rstd) {
  detail::norm_sum<computed_as<T>, computed_as<T>>(ctx, a, b, sum, gain, eps, y, rstd);
}
/// The same for who only multiplies y by matrices.
template <class T, class Gemm>
  requires stored_narrow<T>
void add_rms_norm(backend<T, Gemm> const& ctx, args::in2<computed_as<T>> a, args::in2<computed_as<T>> b,
                  args::out2<computed_as<T>> sum, args::in1<computed_as<T>> gain, double eps, args::out2<T> y,
                  args::out1<computed_as<T>> rstd) {
  detail::norm_sum<computed_as<T>, T>(ctx, a, b, sum, gain, eps, y, rstd);
}

/// x [T, D], gain [D], rstd [T], dy [T, D] -> dx [T, D] (store); dgain [D] is added to, unless empty. dx may be
/// dy. Throws shape_error.
template <class T, class Gemm, class C = computed_as<T>>
void rms_norm_backward(backend<T, Gemm> const& ctx, args::in2<C> x, args::in1<C> gain, args::in1<C> rstd,
                       args::in2<C> dy, args::out2<C> dx, args::out1<C> dgain, store how) {
  detail::check_gain<C>("rms_norm_backward", "gain", gain, x.columns());
  if (!gain.empty()) detail::check_gain<C>("rms_norm_backward", "dgain", dgain, x.columns());
  check::shape("rms_norm_backward", "rstd", rstd, {x.rows()});
  check::shape("rms_norm_backward", "dy", dy, x.extents);
  check::shape("rms_norm_backward", "dx", dx, x.extents);
  auto const timing = ctx.timed("rms_norm_backward", (how == store::add ? 4 : 3) * widths<T> * double(x.size()));
  detail::norm_heads_backward<C, C>(ctx, x, gain, detail::as_column(rstd), dy, dx, dgain, how);
}

/// The norm of every head by itself: x [T, H * head_dim], gain [head_dim] -> y [T, H * head_dim], rstd [T, H];
/// y may be x. H is read from rstd. Throws shape_error.
template <class T, class Gemm, class C = computed_as<T>>
void head_rms_norm(backend<T, Gemm> const& ctx, args::in2<T> x, args::in1<C> gain, double eps, args::out2<T> y,
                   args::out2<C> rstd) {
  index_t const heads = rstd.columns();
  check::that(heads > 0 && x.columns() % heads == 0, "head_rms_norm", "a width that the heads do not divide",
              "x [T, heads * head_dim] and rstd [T, heads]");
  detail::check_gain<C>("head_rms_norm", "gain", gain, x.columns() / heads);
  check::shape("head_rms_norm", "y", y, x.extents);
  check::shape("head_rms_norm", "rstd", rstd, {x.rows(), heads});
  auto const timing = ctx.timed("head_rms_norm", 2.0 * double(x.size()));
  detail::norm_heads<C, T, T>(ctx, x, gain, eps, y, rstd);
}

/// x, dy [T, H * head_dim], rstd [T, H] -> dx [T, H * head_dim] (store); dgain [head_dim] is added to, over
/// tokens and heads, unless empty. dx may be dy. Throws shape_error.
template <class T, class Gemm, class C = computed_as<T>>
void head_rms_norm_backward(backend<T, Gemm> const& ctx, args::in2<T> x, args::in1<C> gain, args::in2<C> rstd,
                            args::in2<T> dy, args::out2<T> dx, args::out1<C> dgain, store how) {
  index_t const heads = rstd.columns();
  check::that(heads > 0 && x.columns() % heads == 0, "head_rms_norm_backward",
              "a width that the heads do not divide", "x [T, heads * head_dim] and rstd [T, heads]");
  detail::check_gain<C>("head_rms_norm_backward", "gain", gain, x.columns() / heads);
  if (!gain.empty()) detail::check_gain<C>("head_rms_norm_backward", "dgain", dgain, x.columns() / heads);
  check::shape("head_rms_norm_backward", "rstd", rstd, {x.rows(), heads});
  check::shape("head_rms_norm_backward", "dy", dy, x.extents);
  check::shape("head_rms_norm_backward", "dx", dx, x.extents);
  auto const timing = ctx.timed("head_rms_norm_backward", 3.0 * double(x.size()));
  detail::norm_heads_backward<C, T>(ctx, x, gain, rstd, dy, dx, dgain, how);
}

}  // namespace accrete::inline v0::cpu
