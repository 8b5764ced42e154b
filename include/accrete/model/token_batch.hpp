#pragma once
#include <cstdint>

#include "accrete/backend/backend.hpp"
#include "accrete/data/ragged_batch.hpp"

namespace accrete::inline v0::model {

/// What a step reads of its documents, in the backend's memory. T tokens, documents end to end.
template <class Space>
struct token_batch {
  view<std::int32_t const, 1, Space> tokens;     // [T]
  view<std::int32_t const, 1, Space> targets;    // [T]
  view<std::int32_t const, 1, Space> positions;  // [T]
  view<index_t const, 1, Space> offsets;         // [documents + 1]

  [[nodiscard]] index_t num_tokens() const { return tokens.size(); }
};

/// A host batch as it is; it must outlive the view.
inline token_batch<mem::host> views_of(data::ragged_batch const& b) {
  return {{b.tokens.data(), {index_t(b.tokens.size())}},
          {b.targets.data(), {index_t(b.targets.size())}},
          {b.positions.data(), {index_t(b.positions.size())}},
          {b.offsets.data(), {index_t(b.offsets.size())}}};
}

}  // namespace accrete::inline v0::model
