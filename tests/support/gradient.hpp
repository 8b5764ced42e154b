#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>

#include "accrete/core/rng.hpp"
#include "accrete/core/view.hpp"

/// Gradients against central differences of the values they belong to.
namespace test {

/// Normal numbers that depend on (seed, name) only.
template <class T, int Rank>
void random_fill(accrete::view<T, Rank> v, accrete::seed s, std::string_view name, double deviation = 1.0) {
  static_assert(Rank <= 2, "[accrete] random_fill: vectors and matrices only");
  accrete::random_stream const stream(s, name);
  std::uint64_t count = 0;
  for (accrete::index_t i = 0; i < v.rows(); ++i) {
    if constexpr (Rank == 1) {
      v(i) = static_cast<T>(deviation * stream.normal(count++));
    } else {
      for (accrete::index_t j = 0; j < v.columns(); ++j) {
        v(i, j) = static_cast<T>(deviation * stream.normal(count++));
      }
    }
  }
}

/// ||differences - analytic|| / max(||differences||, ||analytic||, 1e-3), where differences are
/// (loss(p + h) - loss(p - h)) / 2h for every element p in turn. The floor keeps the noise of the differences
/// (about 1e-16 |loss| / h) from looking like an error where the gradient vanishes. Compare with `<`, so that
/// NaN fails: REQUIRE(relative_gradient_error(...) < 1e-8). `parameter` is what `loss()` reads; every element
/// is put back to its own bits.
template <class F>
double relative_gradient_error(accrete::view<double, 2> parameter, accrete::view<double const, 2> analytic,
                               F&& loss, double h = 1e-5) {
  if (parameter.extents != analytic.extents) return std::nan("");
  double off = 0, of_differences = 0, of_analytic = 0;
  for (accrete::index_t i = 0; i < parameter.rows(); ++i) {
    for (accrete::index_t j = 0; j < parameter.columns(); ++j) {
      double const kept = parameter(i, j);
      // The two points as the machine holds them: their true distance, not 2h.
      double const above = kept + h, below = kept - h;
      parameter(i, j) = above;
      double const loss_above = loss();
      parameter(i, j) = below;
      double const loss_below = loss();
      parameter(i, j) = kept;
      double const difference = (loss_above - loss_below) / (above - below);
      off += (difference - analytic(i, j)) * (difference - analytic(i, j));
      of_differences += difference * difference;
      of_analytic += analytic(i, j) * analytic(i, j);
    }
  }
  return std::sqrt(off) / std::max(1e-3, std::sqrt(std::max(of_differences, of_analytic)));
}

template <class F>
double relative_gradient_error(accrete::view<double, 1> parameter, accrete::view<double const, 1> analytic,
                               F&& loss, double h = 1e-5) {
  return relative_gradient_error(
      accrete::view<double, 2>(parameter.data, {parameter.rows(), 1}, parameter.stride),
      accrete::view<double const, 2>(analytic.data, {analytic.rows(), 1}, analytic.stride),
      std::forward<F>(loss), h);
}

/// sum_ij a_ij b_ij: with a random b, a scalar whose gradient by a is b.
template <class T>
double inner_product(accrete::view<T const, 2> a, accrete::view<std::type_identity_t<T> const, 2> b) {
  double sum = 0;
  for (accrete::index_t i = 0; i < a.rows(); ++i) {
    for (accrete::index_t j = 0; j < a.columns(); ++j) sum += double(a(i, j)) * double(b(i, j));
  }
  return sum;
}

}  // namespace test
