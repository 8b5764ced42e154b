#pragma once
#include <array>
#include <cstddef>
#include <type_traits>

namespace accrete::inline v0 {

/// All sizes and offsets: 64 bits, so that tokens x vocabulary never wraps (14,134 x 151,936 passes 2^31).
using index_t = std::ptrdiff_t;

namespace mem {
struct host {};    ///< memory the CPU may touch
struct device {};  ///< memory only an accelerator may touch
}  // namespace mem

/// A non-owning window on row-major memory. The inner dimensions are contiguous; `stride` is the distance, in
/// elements, between neighbours along the first one, so a block of columns of a matrix is a view as well.
/// `Space` is part of the type: a host view handed to a device operation does not compile.
template <class T, int Rank, class Space = mem::host>
struct view {
  static_assert(Rank >= 1, "[accrete] view: Rank must be 1 or more. Use a plain value for a scalar");
  using element_type = T;
  using value_type = std::remove_const_t<T>;
  using space = Space;
  static constexpr int rank = Rank;

  T* data = nullptr;
  std::array<index_t, std::size_t(Rank)> extents{};
  index_t stride = 0;

  constexpr view() = default;
  constexpr view(T* first, std::array<index_t, std::size_t(Rank)> sizes)
      : data(first), extents(sizes), stride(inner(sizes)) {}
  constexpr view(T* first, std::array<index_t, std::size_t(Rank)> sizes, index_t distance)
      : data(first), extents(sizes), stride(distance) {}

  /// A view of mutable elements reads as a view of constant ones.
  template <class U>
    requires(!std::is_const_v<U> && std::is_same_v<U const, T>)
  constexpr view(view<U, Rank, Space> const& v) : data(v.data), extents(v.extents), stride(v.stride) {}

  [[nodiscard]] constexpr index_t extent(int dimension) const { return extents[std::size_t(dimension)]; }
  [[nodiscard]] constexpr index_t rows() const { return extents[0]; }
  [[nodiscard]] constexpr index_t columns() const requires(Rank == 2) { return extents[1]; }
  [[nodiscard]] constexpr index_t size() const { return extents[0] * inner(extents); }
  [[nodiscard]] constexpr bool empty() const { return size() == 0; }
  [[nodiscard]] constexpr bool contiguous() const { return extents[0] <= 1 || stride == inner(extents); }

  /// `count` neighbours along the first dimension, from `first` on.
  [[nodiscard]] constexpr view slice(index_t first, index_t count) const {
    auto sizes = extents;
    sizes[0] = count;
    return {data + first * stride, sizes, stride};
  }
  /// A block of columns; it keeps the row distance of the whole. One of no rows may have no memory to point
  /// into.
  [[nodiscard]] constexpr view column_slice(index_t first, index_t count) const requires(Rank == 2) {
    return {extents[0] == 0 ? data : data + first, {extents[0], count}, stride};
  }
  /// The elements as one row. Only for contiguous views.
  [[nodiscard]] constexpr view<T, 1, Space> flat() const { return {data, {size()}}; }

  [[nodiscard]] constexpr T* row(index_t i) const { return data + i * stride; }
  [[nodiscard]] constexpr T& operator()(index_t i) const
      requires(Rank == 1 && std::is_same_v<Space, mem::host>) {
    return data[i * stride];
  }
  [[nodiscard]] constexpr T& operator()(index_t i, index_t j) const
      requires(Rank == 2 && std::is_same_v<Space, mem::host>) {
    return data[i * stride + j];
  }

 private:
  static constexpr index_t inner(std::array<index_t, std::size_t(Rank)> const& sizes) {
    index_t n = 1;
    for (std::size_t d = 1; d < sizes.size(); ++d) n *= sizes[d];
    return n;
  }
};

}  // namespace accrete::inline v0
