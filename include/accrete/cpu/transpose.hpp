#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "accrete/core/bfloat16.hpp"
#include "accrete/core/view.hpp"

namespace accrete::inline v0::cpu::detail {

/// Eight bfloat16 of a row, as the bits they are; g++ and clang know its like.
using eight_bits16 = std::uint16_t __attribute__((vector_size(16)));

/// to [8, 8] = from^T, rows `from_row` and `to_row` apart. Three times over, each row of the upper half is
/// shuffled into its fellow of the lower half, as a deck of cards is.
inline void transpose_8x8(bfloat16 const* from, index_t from_row, bfloat16* to, index_t to_row) {
  std::array<eight_bits16, 8> rows, shuffled;
  for (index_t i = 0; i < 8; ++i) std::memcpy(&rows[std::size_t(i)], from + i * from_row, sizeof(eight_bits16));
  for (int time = 0; time < 3; ++time) {
    for (std::size_t i = 0; i < 4; ++i) {
      shuffled[2 * i] = __builtin_shufflevector(rows[i], rows[i + 4], 0, 8, 1, 9, 2, 10, 3, 11);
      shuffled[2 * i + 1] = __builtin_shufflevector(rows[i], rows[i + 4], 4, 12, 5, 13, 6, 14, 7, 15);
    }
    rows = shuffled;
  }
  for (index_t i = 0; i < 8; ++i) std::memcpy(to + i * to_row, &rows[std::size_t(i)], sizeof(eight_bits16));
}

/// to [columns, rows], rows `to_row` apart, = x^T.
inline void transpose(view<bfloat16 const, 2> x, bfloat16* to, index_t to_row) {
  index_t const whole_rows = x.rows() / 8 * 8, whole_columns = x.columns() / 8 * 8;
  for (index_t i = 0; i < whole_rows; i += 8)
    for (index_t j = 0; j < whole_columns; j += 8)
      transpose_8x8(x.row(i) + j, x.stride, to + j * to_row + i, to_row);
  for (index_t i = 0; i < x.rows(); ++i)
    for (index_t j = i < whole_rows ? whole_columns : 0; j < x.columns(); ++j) to[j * to_row + i] = x.row(i)[j];
}

}  // namespace accrete::inline v0::cpu::detail
