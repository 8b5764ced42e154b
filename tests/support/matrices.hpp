#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include "accrete/core/view.hpp"

namespace test {

using accrete::index_t;
using accrete::view;

/// A matrix whose rows may lie apart; the numbers in the gaps are canaries that no operation may touch.
template <class T>
struct matrix {
  matrix(index_t rows, index_t columns, index_t gap = 0)
      : values(std::size_t(rows * (columns + gap)), canary()),
        shape{values.data(), {rows, columns}, columns + gap} {
    for (index_t i = 0; i < rows; ++i) std::fill_n(shape.row(i), columns, T(0));
  }
  matrix(matrix const& other) : values(other.values), shape(other.shape) { shape.data = values.data(); }
  matrix(matrix&& other) noexcept = default;
  matrix& operator=(matrix const&) = delete;
  ~matrix() = default;

  static constexpr T canary() { return T(123456); }

  operator view<T, 2>() { return shape; }
  operator view<T const, 2>() const { return shape; }
  /// The rows one after the other, for vectors.
  [[nodiscard]] view<T, 1> flat() { return {values.data(), {shape.size()}}; }
  [[nodiscard]] index_t rows() const { return shape.rows(); }
  [[nodiscard]] index_t columns() const { return shape.columns(); }
  T& operator()(index_t i, index_t j) { return shape(i, j); }
  T const& operator()(index_t i, index_t j) const { return shape(i, j); }

  /// Whether the gaps are as they were.
  [[nodiscard]] bool gaps_untouched() const {
    for (index_t i = 0; i < rows(); ++i) {
      for (index_t j = columns(); j < shape.stride; ++j) {
        if (shape.row(i)[j] != canary()) return false;
      }
    }
    return true;
  }
  /// The same numbers in double.
  [[nodiscard]] matrix<double> widened() const {
    matrix<double> wide(rows(), columns(), shape.stride - columns());
    for (index_t i = 0; i < rows(); ++i) {
      for (index_t j = 0; j < columns(); ++j) wide(i, j) = double((*this)(i, j));
    }
    return wide;
  }

  std::vector<T> values;
  view<T, 2> shape;
};

/// Normal numbers, the same for the same seed.
template <class T>
matrix<T> normal(index_t rows, index_t columns, unsigned seed, index_t gap = 0, double deviation = 1.0) {
  matrix<T> m(rows, columns, gap);
  std::mt19937 bits(seed);
  std::normal_distribution<double> draw(0.0, deviation);
  for (index_t i = 0; i < rows; ++i) {
    for (index_t j = 0; j < columns; ++j) m(i, j) = T(draw(bits));
  }
  return m;
}

/// |got - expected| / |expected|, over the whole matrix; infinite where one of them is not finite, or a gap
/// was written to.
template <class T, class U>
double distance(matrix<T> const& got, matrix<U> const& expected) {
  double difference = 0;
  double size = 0;
  for (index_t i = 0; i < expected.rows(); ++i) {
    for (index_t j = 0; j < expected.columns(); ++j) {
      double const e = double(expected(i, j));
      difference += (double(got(i, j)) - e) * (double(got(i, j)) - e);
      size += e * e;
    }
  }
  if (!std::isfinite(difference) || !std::isfinite(size) || !got.gaps_untouched()) {
    return std::numeric_limits<double>::infinity();
  }
  return size > 0 ? std::sqrt(difference / size) : std::sqrt(difference);
}

/// What a T may be off by, norm-wise, from the same operation in double on the same numbers.
template <class T>
inline constexpr double tolerance = std::is_same_v<T, float> ? 5e-6 : 1e-12;

}  // namespace test
