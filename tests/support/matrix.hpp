#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string_view>

#include "accrete/core/view.hpp"
#include "accrete/tensor/tensor.hpp"
#include "support/gradient.hpp"

namespace test {

/// A small matrix for tests, optionally lying inside a wider one (as q lies inside q|k|v) with `pad` columns of
/// a guard value on either side. Operations that ignore the row distance give wrong numbers, or hurt the
/// guards.
template <class T = double>
class matrix {
 public:
  static constexpr T guard = T(-12288);

  matrix(accrete::index_t rows, accrete::index_t columns, accrete::index_t pad = 0)
      : pad_(pad), whole_({rows, columns + 2 * pad}) {
    std::fill_n(whole_.data(), whole_.size(), guard);
    fill(T(0));
  }
  /// Row-major values.
  matrix(accrete::index_t rows, accrete::index_t columns, std::initializer_list<double> values)
      : matrix(rows, columns) {
    std::transform(values.begin(), values.end(), whole_.data(), [](double v) { return static_cast<T>(v); });
  }
  static matrix random(accrete::index_t rows, accrete::index_t columns, std::string_view name,
                       accrete::index_t pad = 0, double deviation = 1.0) {
    matrix m(rows, columns, pad);
    random_fill(m.view(), accrete::seed{7}, name, deviation);
    return m;
  }

  [[nodiscard]] accrete::view<T, 2> view() { return inner(whole_.view()); }
  [[nodiscard]] accrete::view<T const, 2> view() const { return inner(whole_.view()); }
  operator accrete::view<T, 2>() { return view(); }
  operator accrete::view<T const, 2>() const { return view(); }
  T& operator()(accrete::index_t i, accrete::index_t j) { return view()(i, j); }
  T operator()(accrete::index_t i, accrete::index_t j) const { return view()(i, j); }

  void fill(T value) {
    for (accrete::index_t i = 0; i < whole_.extent(0); ++i) std::fill_n(view().row(i), view().columns(), value);
  }
  void copy_from(matrix const& other) {
    for (accrete::index_t i = 0; i < whole_.extent(0); ++i) {
      std::copy_n(other.view().row(i), view().columns(), view().row(i));
    }
  }
  /// Whether nothing was written beside the matrix.
  [[nodiscard]] bool guards_hold() const {
    for (accrete::index_t i = 0; i < whole_.extent(0); ++i) {
      T const* row = whole_.view().row(i);
      for (accrete::index_t j = 0; j < pad_; ++j) {
        if (row[j] != guard || row[whole_.extent(1) - 1 - j] != guard) return false;
      }
    }
    return true;
  }

 private:
  template <class V>
  V inner(V all) const {
    return all.column_slice(pad_, all.columns() - 2 * pad_);
  }

  accrete::index_t pad_;
  accrete::tensor<T, 2> whole_;
};

/// A small vector for tests.
template <class T = double>
class vector {
 public:
  explicit vector(accrete::index_t n) : values_({n}) {}
  vector(std::initializer_list<T> values) : values_({accrete::index_t(values.size())}) {
    std::copy(values.begin(), values.end(), values_.data());
  }
  static vector random(accrete::index_t n, std::string_view name, double deviation = 1.0) {
    vector v(n);
    random_fill(v.view(), accrete::seed{7}, name, deviation);
    return v;
  }
  [[nodiscard]] accrete::view<T, 1> view() { return values_.view(); }
  [[nodiscard]] accrete::view<T const, 1> view() const { return values_.view(); }
  operator accrete::view<T, 1>() { return view(); }
  operator accrete::view<T const, 1>() const { return view(); }
  T& operator()(accrete::index_t i) { return values_.view()(i); }
  T operator()(accrete::index_t i) const { return values_.view()(i); }
  void fill(T value) { std::fill_n(values_.data(), values_.size(), value); }

 private:
  accrete::tensor<T, 1> values_;
};

/// What `rotary_table` takes: theta^(-2i / head_dim), radians per position.
inline vector<double> plain_frequencies(accrete::index_t head_dim, double theta) {
  vector<double> f(head_dim / 2);
  for (accrete::index_t i = 0; i < head_dim / 2; ++i)
    f(i) = std::pow(theta, -2.0 * double(i) / double(head_dim));
  return f;
}

using ids = vector<std::int32_t>;
using offsets = vector<accrete::index_t>;

/// The largest |a - b|; infinite if shapes differ or any difference is not a number.
template <class A, class B>
double difference(A const& a, B const& b) {
  auto const va = a.view();
  auto const vb = b.view();
  if (va.extents != vb.extents) return std::numeric_limits<double>::infinity();
  double worst = 0;
  auto const look = [&](double d) { worst = d <= worst ? worst : (d > worst ? d : INFINITY); };
  for (accrete::index_t i = 0; i < va.rows(); ++i) {
    if constexpr (decltype(va)::rank == 1) {
      look(std::abs(double(va(i)) - double(vb(i))));
    } else {
      for (accrete::index_t j = 0; j < va.columns(); ++j) look(std::abs(double(va(i, j)) - double(vb(i, j))));
    }
  }
  return worst;
}

/// The same against numbers written out, row by row.
template <class A>
double difference(A const& a, std::initializer_list<double> expected) {
  auto const va = a.view();
  if (va.size() != accrete::index_t(expected.size())) return std::numeric_limits<double>::infinity();
  if constexpr (decltype(va)::rank == 1) {
    vector<double> e(va.rows());
    std::copy(expected.begin(), expected.end(), e.view().data);
    return difference(a, e);
  } else {
    return difference(a, matrix<double>(va.rows(), va.columns(), expected));
  }
}

}  // namespace test
