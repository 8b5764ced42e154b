#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>
#include "accrete/core/error.hpp"
#include "accrete/core/view.hpp"
#include "accrete/data/ragged_batch.hpp"

namespace accrete::inline v0::data {

/// Adds the rows of a right-padded matrix of ids. Only `lengths` says where a row ends: the pad id is often the
/// end-of-text id, so a mask made from ids would lose a real target. Throws `shape_error` on lengths that do
/// not fit.
inline void append_padded(ragged_batch& batch, view<std::int32_t const, 2> ids,  // [D, columns]
                          std::span<index_t const> lengths) {                    // [D]
  if (index_t(lengths.size()) != ids.rows())
    throw shape_error("data::append_padded", std::to_string(lengths.size()) + " lengths",
                      std::to_string(ids.rows()) + ", one for each row");
  for (index_t d = 0; d < ids.rows(); ++d)
    if (lengths[std::size_t(d)] < 0 || lengths[std::size_t(d)] > ids.columns())
      throw shape_error("data::append_padded",
                        "length " + std::to_string(lengths[std::size_t(d)]) + " for row " + std::to_string(d),
                        "0 to " + std::to_string(ids.columns()) + ", the number of columns");
  for (index_t d = 0; d < ids.rows(); ++d)
    batch.append(std::span(ids.row(d), std::size_t(lengths[std::size_t(d)])));
}

/// Lengths out of an attention mask of ones and zeros. A row that does not start with its ones (left padding, a
/// hole) is refused with `shape_error`: read as lengths it would shift every position.
inline std::vector<index_t> lengths_from_mask(view<std::int32_t const, 2> mask) {  // [D, columns]
  std::vector<index_t> lengths;
  for (index_t d = 0; d < mask.rows(); ++d) {
    index_t length = 0;
    while (length < mask.columns() && mask(d, length) == 1) ++length;
    for (index_t column = length; column < mask.columns(); ++column)
      if (mask(d, column) != 0)
        throw shape_error("data::lengths_from_mask",
                          "mask " + std::to_string(mask(d, column)) + " at row " + std::to_string(d) +
                              ", column " + std::to_string(column) + " after a run of " +
                              std::to_string(length) + " ones",
                          "ones first, then only zeros", "left padding is not supported: pad on the right");
    lengths.push_back(length);
  }
  return lengths;
}

}  // namespace accrete::inline v0::data
