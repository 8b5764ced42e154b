#pragma once
// Opt-in: in no umbrella header. xtensor moved its headers in 0.26; both layouts are met.
#if __has_include(<xtensor/containers/xadapt.hpp>)
#include <xtensor/containers/xadapt.hpp>
#include <xtensor/containers/xtensor.hpp>
#else
#include <xtensor/xadapt.hpp>
#include <xtensor/xtensor.hpp>
#endif

#include <array>
#include <cstddef>
#include <string>

#include "accrete/core/error.hpp"
#include "accrete/core/view.hpp"

namespace accrete::inline v0 {

/// An xtensor adaptor on the view's memory: no copy, and it must not outlive it. Contiguous views only: throws
/// shape_error for a block of columns.
template <class T, int Rank>
auto as_xtensor(view<T, Rank> v) {
  if (!v.contiguous())
    throw shape_error("as_xtensor", "a view with a row distance of " + std::to_string(v.stride),
                      "a contiguous view", "copy the block of columns first");
  std::array<std::size_t, std::size_t(Rank)> shape{};
  for (std::size_t d = 0; d < shape.size(); ++d) shape[d] = std::size_t(v.extents[d]);
  return xt::adapt(v.data, std::size_t(v.size()), xt::no_ownership(), shape);
}

/// A view on a row-major xtensor: no copy, and the tensor must outlive it.
template <class T, std::size_t Rank>
view<T, int(Rank)> view_of(xt::xtensor<T, Rank, xt::layout_type::row_major>& x) {
  std::array<index_t, Rank> extents{};
  for (std::size_t d = 0; d < Rank; ++d) extents[d] = index_t(x.shape()[d]);
  return {x.data(), extents};
}
template <class T, std::size_t Rank>
view<T const, int(Rank)> view_of(xt::xtensor<T, Rank, xt::layout_type::row_major> const& x) {
  std::array<index_t, Rank> extents{};
  for (std::size_t d = 0; d < Rank; ++d) extents[d] = index_t(x.shape()[d]);
  return {x.data(), extents};
}
template <class T, std::size_t Rank>
void view_of(xt::xtensor<T, Rank, xt::layout_type::row_major> const&&) = delete;  // it would dangle

}  // namespace accrete::inline v0
