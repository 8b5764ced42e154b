#pragma once
// Opt-in: in no umbrella header.
#include <Eigen/Core>
#include <type_traits>

#include "accrete/core/view.hpp"

namespace accrete::inline v0 {

/// An Eigen matrix on the view's memory, row-major as the view is, with its row distance: no copy, and it must
/// not outlive the memory. Blocks of columns work.
template <class T>
auto as_eigen(view<T, 2> v) {
  using matrix = Eigen::Matrix<std::remove_const_t<T>, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  using mapped = std::conditional_t<std::is_const_v<T>, matrix const, matrix>;
  return Eigen::Map<mapped, Eigen::Unaligned, Eigen::OuterStride<>>(v.data, v.rows(), v.columns(),
                                                                    Eigen::OuterStride<>(v.stride));
}
template <class T>
auto as_eigen(view<T, 1> v) {
  using vector = Eigen::Matrix<std::remove_const_t<T>, Eigen::Dynamic, 1>;
  using mapped = std::conditional_t<std::is_const_v<T>, vector const, vector>;
  return Eigen::Map<mapped, Eigen::Unaligned, Eigen::InnerStride<>>(v.data, v.rows(),
                                                                    Eigen::InnerStride<>(v.stride));
}

/// A view on a row-major Eigen matrix of run-time size: no copy, and the matrix must outlive it.
template <class T>
view<T, 2> view_of(Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>& m) {
  return {m.data(), {m.rows(), m.cols()}};
}
template <class T>
view<T const, 2> view_of(Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> const& m) {
  return {m.data(), {m.rows(), m.cols()}};
}
template <class T>
void view_of(Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> const&&) =
    delete;  // it would dangle

}  // namespace accrete::inline v0
