#pragma once
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>
#include "accrete/core/rng.hpp"
#include "accrete/core/view.hpp"

namespace accrete::inline v0::data {

/// Permutes in place (Fisher-Yates); the result depends on the values given and the stream, nothing else.
inline void shuffle(std::span<index_t> values, random_stream const& stream) {
  for (std::size_t i = values.size(); i > 1; --i)
    std::swap(values[i - 1], values[std::size_t(stream.below(std::uint64_t(i), std::uint64_t(i)))]);
}

/// The numbers 0 .. count - 1, permuted.
inline std::vector<index_t> shuffled(index_t count, random_stream const& stream) {
  std::vector<index_t> values(std::size_t(count), 0);
  std::iota(values.begin(), values.end(), index_t{0});
  shuffle(values, stream);
  return values;
}

}  // namespace accrete::inline v0::data
