#pragma once
#include <cmath>
#include <concepts>

#include "accrete/backend/arguments.hpp"
#include "accrete/backend/check.hpp"
#include "accrete/backend/types.hpp"
#include "accrete/reference/arithmetic.hpp"
#include "accrete/reference/context.hpp"

namespace accrete::inline v0::reference {

namespace detail {

/// One vector: y = gain * x * r; returns r = 1 / sqrt(mean(x^2) + eps). y may be x.
template <class T>
T norm_vector(T const* x, index_t n, args::in1<T> gain, double eps, T* y) {
  double squares = 0;
  for (index_t i = 0; i < n; ++i) squares += double(x[i]) * double(x[i]);
  double const r = 1.0 / std::sqrt(squares / double(n) + eps);
  for (index_t i = 0; i < n; ++i)
    y[i] = static_cast<T>((gain.empty() ? 1.0 : double(gain(i))) * double(x[i]) * r);
  return static_cast<T>(r);
}

/// One vector. With n = x r and u = gain * dy:
///   dgain_i += dy_i n_i
///   dx_i     = r (u_i - n_i mean_j(u_j n_j)),
/// the second term because r itself depends on every x. dx may be dy.
template <class T>
void norm_vector_backward(T const* x, index_t n, args::in1<T> gain, double r, T const* dy, T* dx,
                          args::out1<T> dgain, store how) {
  auto const upstream = [&](index_t i) { return (gain.empty() ? 1.0 : double(gain(i))) * double(dy[i]); };
  double mean = 0;
  for (index_t i = 0; i < n; ++i) mean += upstream(i) * double(x[i]) * r;
  mean /= double(n);
  for (index_t i = 0; i < n; ++i) {
    double const normed = double(x[i]) * r;
    if (!gain.empty() && !dgain.empty()) put(dgain(i), double(dy[i]) * normed, store::add);
    put(dx[i], r * (upstream(i) - normed * mean), how);
  }
}

template <class T>
void check_gain(char const* operation, args::in1<T> gain, index_t n) {
  if (!gain.empty()) check::shape(operation, "gain", gain, {n});
}

}  // namespace detail

/// x [T, D], gain [D] (empty: no gain) -> y [T, D], rstd [T].
template <std::floating_point T>
void rms_norm(backend<T> const&, args::in2<T> x, args::in1<T> gain, double eps, args::out2<T> y,
              args::out1<T> rstd) {
  detail::check_gain<T>("rms_norm", gain, x.columns());
  check::shape("rms_norm", "y", y, x.extents);
  check::shape("rms_norm", "rstd", rstd, {x.rows()});
  for (index_t t = 0; t < x.rows(); ++t) {
    rstd(t) = detail::norm_vector<T>(x.row(t), x.columns(), gain, eps, y.row(t));
  }
}

/// sum = a + b, y = norm(sum); sum may be a or b.
template <std::floating_point T>
void add_rms_norm(backend<T> const& ctx, args::in2<T> a, args::in2<T> b, args::out2<T> sum, args::in1<T> gain,
                  double eps, args::out2<T> y, args::out1<T> rstd) {
  add(ctx, a, b, sum);
  rms_norm(ctx, sum, gain, eps, y, rstd);
}

/// x [T, D], gain [D], rstd [T], dy [T, D] -> dx [T, D]; dgain [D] is added to, or empty: a gain that is frozen
/// has no gradient.
template <std::floating_point T>
void rms_norm_backward(backend<T> const&, args::in2<T> x, args::in1<T> gain, args::in1<T> rstd, args::in2<T> dy,
                       args::out2<T> dx, args::out1<T> dgain, store how) {
  detail::check_gain<T>("rms_norm_backward", gain, x.columns());
  if (!gain.empty()) detail::check_gain<T>("rms_norm_backward", dgain, x.columns());
  check::shape("rms_norm_backward", "rstd", rstd, {x.rows()});
  check::shape("rms_norm_backward", "dy", dy, x.extents);
  check::shape("rms_norm_backward", "dx", dx, x.extents);
  for (index_t t = 0; t < x.rows(); ++t) {
    detail::norm_vector_backward<T>(x.row(t), x.columns(), gain, double(rstd(t)), dy.row(t), dx.row(t), dgain,
                                    how);
  }
}

/// The norm of every head by itself: x [T, H * head_dim], gain [head_dim] -> y [T, H * head_dim], rstd [T, H];
/// y may be x. H is read from rstd.
template <std::floating_point T>
void head_rms_norm(backend<T> const&, args::in2<T> x, args::in1<T> gain, double eps, args::out2<T> y,
                   args::out2<T> rstd) {
  index_t const heads = rstd.columns();
  check::that(heads > 0 && x.columns() % heads == 0, "head_rms_norm", "a width that the heads do not divide",
              "x [T, heads * head_dim] and rstd [T, heads]");
  index_t const head_dim = x.columns() / heads;
  detail::check_gain<T>("head_rms_norm", gain, head_dim);
  check::shape("head_rms_norm", "y", y, x.extents);
  check::shape("head_rms_norm", "rstd", rstd, {x.rows(), heads});
  for (index_t t = 0; t < x.rows(); ++t) {
    for (index_t h = 0; h < heads; ++h) {
      index_t const first = h * head_dim;
      rstd(t, h) = detail::norm_vector<T>(x.row(t) + first, head_dim, gain, eps, y.row(t) + first);
    }
  }
}

/// x, dy [T, H * head_dim], rstd [T, H] -> dx [T, H * head_dim]; dgain [head_dim] is added to, over tokens and
/// heads.
template <std::floating_point T>
void head_rms_norm_backward(backend<T> const&, args::in2<T> x, args::in1<T> gain, args::in2<T> rstd,
                            args::in2<T> dy, args::out2<T> dx, args::out1<T> dgain, store how) {
  index_t const heads = rstd.columns();
  check::that(heads > 0 && x.columns() % heads == 0, "head_rms_norm_backward",
              "a width that the heads do not divide", "x [T, heads * head_dim] and rstd [T, heads]");
  index_t const head_dim = x.columns() / heads;
  detail::check_gain<T>("head_rms_norm_backward", gain, head_dim);
  if (!gain.empty()) detail::check_gain<T>("head_rms_norm_backward", dgain, head_dim);
  check::shape("head_rms_norm_backward", "rstd", rstd, {x.rows(), heads});
  check::shape("head_rms_norm_backward", "dy", dy, x.extents);
  check::shape("head_rms_norm_backward", "dx", dx, x.extents);
  for (index_t t = 0; t < x.rows(); ++t) {
    for (index_t h = 0; h < heads; ++h) {
      index_t const first = h * head_dim;
      detail::norm_vector_backward<T>(x.row(t) + first, head_dim, gain, double(rstd(t, h)), dy.row(t) + first,
                                      dx.row(t) + first, dgain, how);
    }
  }
}

}  // namespace accrete::inline v0::reference
