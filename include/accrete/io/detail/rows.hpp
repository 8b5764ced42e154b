#pragma once
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>

#include "accrete/core/bfloat16.hpp"
#include "accrete/core/error.hpp"
#include "accrete/core/half.hpp"
#include "accrete/core/view.hpp"
#include "accrete/io/bytes.hpp"

namespace accrete::inline v0::io::detail {

/// Rows [first_row, first_row + out.rows()) of a `rows` x `columns` tensor must exist and fit `out`. `where`
/// makes the message's first part, and is called only when there is one: readers ask this for every piece they
/// read.
template <class T, class Where>
void require_rows(Where const& where, index_t rows, index_t columns, index_t first_row, view<T, 2> const& out) {
  if (out.columns() != columns)
    throw shape_error(where(), "room for " + std::to_string(out.columns()) + " columns",
                      std::to_string(columns));
  if (first_row < 0 || out.rows() < 0 || first_row > rows || out.rows() > rows - first_row)
    throw shape_error(where(), "rows " + std::to_string(first_row) + " to +" + std::to_string(out.rows()),
                      "rows within its " + std::to_string(rows));
}

enum class plain_number { f32, f16, bf16 };
[[nodiscard]] constexpr index_t size_of(plain_number kind) {
  return kind == plain_number::f32 ? 4 : 2;
}

/// One row of unscaled numbers; `from` may be at any byte.
template <class T>
void widen(plain_number kind, std::byte const* from, T* to, index_t count) {
  switch (kind) {
    case plain_number::f32:
      for (index_t i = 0; i < count; ++i) to[i] = T(load<float>(from + 4 * i));
      break;
    case plain_number::f16:
      for (index_t i = 0; i < count; ++i) to[i] = T(float(half::from_bits(load<std::uint16_t>(from + 2 * i))));
      break;
    case plain_number::bf16:
      for (index_t i = 0; i < count; ++i) to[i] = T(float(bfloat16::from_bits(load<std::uint16_t>(from + 2 * i))));
      break;
  }
}

/// A weight that is not finite is a damaged file, and would only show steps later as a NaN loss.
template <class Where>
void require_finite(Where const& where, index_t first_row, view<float, 2> const& values) {
  constexpr std::uint32_t infinite = 0x7F800000u;  // as an integer: a maximum vectorizes, isfinite does not
  for (index_t r = 0; r < values.rows(); ++r) {
    std::uint32_t largest = 0;
    for (index_t c = 0; c < values.columns(); ++c)
      largest = (std::max)(largest, std::bit_cast<std::uint32_t>(values(r, c)) & 0x7FFFFFFFu);
    if (largest >= infinite)
      throw io_error(where(), "a value in row " + std::to_string(first_row + r) + " that is not finite",
                     "finite weights", "the file is damaged; fetch it again");
  }
}

}  // namespace accrete::inline v0::io::detail
