#pragma once
#include <cmath>
#include <limits>
#include <string>
#include <type_traits>

#include "accrete/core/view.hpp"
#include "support/matrix.hpp"

/// For holding one backend against another that computes in double.
namespace test {

using accrete::index_t;

/// Normal numbers, the same for the same `seed`, `gap` guards on either side of every row.
template <class T>
matrix<T> normal(index_t rows, index_t columns, int seed, index_t gap = 0, double deviation = 1.0) {
  return matrix<T>::random(rows, columns, std::to_string(seed), gap, deviation);
}

template <class T>
matrix<T> copy_of(matrix<T> const& m, index_t gap = 0) {
  matrix<T> copy(m.view().rows(), m.view().columns(), gap);
  copy.copy_from(m);
  return copy;
}

/// The same numbers in double.
template <class T>
matrix<double> widened(matrix<T> const& m) {
  matrix<double> wide(m.view().rows(), m.view().columns());
  for (index_t i = 0; i < m.view().rows(); ++i) {
    for (index_t j = 0; j < m.view().columns(); ++j) wide(i, j) = double(m(i, j));
  }
  return wide;
}

/// The rows one after the other, of a matrix without gaps.
template <class T>
accrete::view<T, 1> flat(matrix<T>& m) {
  return m.view().flat();
}
template <class T>
accrete::view<T const, 1> flat(matrix<T> const& m) {
  return m.view().flat();
}

/// |got - expected| / |expected|, over the whole matrix; infinite where something is not finite, shapes differ
/// or a guard was hurt.
template <class T, class U>
double distance(matrix<T> const& got, matrix<U> const& expected) {
  constexpr double never = std::numeric_limits<double>::infinity();
  if (got.view().extents != expected.view().extents || !got.guards_hold()) return never;
  double difference = 0;
  double size = 0;
  for (index_t i = 0; i < got.view().rows(); ++i) {
    for (index_t j = 0; j < got.view().columns(); ++j) {
      double const e = double(expected(i, j));
      difference += (double(got(i, j)) - e) * (double(got(i, j)) - e);
      size += e * e;
    }
  }
  if (!std::isfinite(difference) || !std::isfinite(size)) return never;
  return size > 0 ? std::sqrt(difference / size) : std::sqrt(difference);
}

/// Whether two matrices hold equal numbers, to the last bit.
template <class T>
bool same_bits(matrix<T> const& a, matrix<T> const& b) {
  if (a.view().extents != b.view().extents) return false;
  for (index_t i = 0; i < a.view().rows(); ++i) {
    for (index_t j = 0; j < a.view().columns(); ++j) {
      if (a(i, j) != b(i, j)) return false;
    }
  }
  return true;
}

/// What a T may be off by, norm-wise, from the same operation in double on the same numbers.
template <class T>
inline constexpr double tolerance = std::is_same_v<T, float> ? 5e-6 : 1e-12;

}  // namespace test
