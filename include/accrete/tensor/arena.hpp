#pragma once
#include <array>
#include <cstddef>
#include <string>

#include "accrete/core/error.hpp"
#include "accrete/core/view.hpp"
#include "accrete/tensor/tensor.hpp"

namespace accrete::inline v0 {

/// The distance between rows of `columns` elements that is kindest to who walks down a column, as products of a
/// transposed matrix do: an odd number of cache lines, so that neighbouring rows never fall into the same lines
/// of a cache.
template <class T>
[[nodiscard]] constexpr index_t row_distance(index_t columns) {
  constexpr index_t line = 64 / index_t(sizeof(T));
  return ((columns + line - 1) / line | 1) * line;
}

/// One block of memory that a training step carves its buffers from. It is laid out twice by the same code: a
/// measuring arena hands out views without memory and only counts, then one of exactly that size hands out the
/// real ones. What is predicted and what is used cannot differ.
template <class Space = mem::host>
class arena {
 public:
  static constexpr std::size_t alignment = 64;

  /// Measures: every view it gives has a null pointer.
  arena() = default;
  /// Owns `bytes`, all zero.
  explicit arena(std::size_t bytes) : block_({index_t(bytes)}), room_(block_.view()), measuring_(false) {}
  /// Carves from memory of someone else, aligned as its own would be, which must outlive what is taken from it.
  explicit arena(view<std::byte, 1, Space> lent) : room_(lent), measuring_(false) {}

  /// The next `extents` elements of T, aligned to a cache line.
  template <class T, std::size_t Rank>
  view<T, int(Rank), Space> take(std::array<index_t, Rank> extents) {
    view<T, int(Rank), Space> v(nullptr, extents);
    std::size_t const bytes = (std::size_t(v.size()) * sizeof(T) + alignment - 1) / alignment * alignment;
    if (!measuring_) {
      if (used_ + bytes > std::size_t(room_.size())) {
        throw shape_error("arena", std::to_string(used_ + bytes) + " bytes asked",
                          "at most the " + std::to_string(room_.size()) + " bytes that were measured");
      }
      v.data = reinterpret_cast<T*>(room_.data + used_);
    }
    used_ += bytes;
    return v;
  }
  template <class T>
  view<T, 2, Space> matrix(index_t rows, index_t columns) {
    return take<T>(std::array{rows, columns});
  }
  /// A matrix whose rows lie `row_distance` apart, for products: see there.
  template <class T>
  view<T, 2, Space> spread_matrix(index_t rows, index_t columns) {
    return take<T>(std::array{rows, row_distance<T>(columns)}).column_slice(0, columns);
  }
  template <class T>
  view<T, 1, Space> vector(index_t n) {
    return take<T>(std::array{n});
  }

  /// Bytes handed out so far.
  [[nodiscard]] std::size_t used() const { return used_; }
  /// All of it, taken or not; empty while measuring.
  [[nodiscard]] view<std::byte, 1, Space> room() const { return room_; }
  /// Bytes owned; 0 while measuring, and where they are lent.
  [[nodiscard]] std::size_t capacity() const { return block_.bytes(); }

 private:
  tensor<std::byte, 1, Space> block_;
  view<std::byte, 1, Space> room_;
  std::size_t used_ = 0;
  bool measuring_ = true;
};

}  // namespace accrete::inline v0
