#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>
#include "accrete/core/error.hpp"
#include "accrete/core/target.hpp"
#include "accrete/core/view.hpp"
#include "accrete/data/token_span.hpp"

namespace accrete::inline v0::data {

/// Documents laid end to end; attention never crosses an offset. It equals right-padding with a mask and spends
/// nothing on padding. T tokens, D documents; all vectors keep their memory over `clear`.
struct ragged_batch {
  std::vector<std::int32_t> tokens;     // [T]
  std::vector<std::int32_t> targets;    // [T] the next token of the same document, already shifted
  std::vector<std::int32_t> positions;  // [T] 0, 1, .. within each document
  std::vector<index_t> offsets{0};      // [D + 1]
  std::vector<index_t> documents;       // [D] number of the document in its corpus, -1 when it has none
  index_t num_targets = 0;

  [[nodiscard]] index_t num_tokens() const { return index_t(tokens.size()); }
  [[nodiscard]] index_t num_documents() const { return index_t(documents.size()); }
  [[nodiscard]] bool empty() const { return tokens.empty(); }

  void clear() {
    tokens.clear();
    targets.clear();
    positions.clear();
    offsets.resize(1);
    documents.clear();
    num_targets = 0;
  }

  /// After this nothing allocates until the batch holds more than this.
  void reserve(index_t token_capacity, index_t document_capacity) {
    tokens.reserve(std::size_t(token_capacity));
    targets.reserve(std::size_t(token_capacity));
    positions.reserve(std::size_t(token_capacity));
    offsets.reserve(std::size_t(document_capacity) + 1);
    documents.reserve(std::size_t(document_capacity));
  }

  /// Adds one document. None of 0 tokens is kept; one of a single token is kept and has no target.
  void append(token_span document, index_t number = -1) {
    if (document.empty()) return;
    auto const first = tokens.size(), size = std::size_t(document.size());
    tokens.resize(first + size);
    document.copy_to(tokens.data() + first);
    targets.insert(targets.end(), tokens.begin() + std::ptrdiff_t(first) + 1, tokens.end());
    targets.push_back(ignore_target);
    for (std::size_t i = 0; i < size; ++i) positions.push_back(std::int32_t(i));
    offsets.push_back(num_tokens());
    documents.push_back(number);
    num_targets += document.size() - 1;
  }

  [[nodiscard]] std::span<std::int32_t const> document(index_t d) const {
    auto const first = std::size_t(offsets[std::size_t(d)]);
    return std::span(tokens).subspan(first, std::size_t(offsets[std::size_t(d) + 1]) - first);
  }
};

/// Throws `config_error` naming position and value unless every id is in [0, vocabulary).
inline void check_ids(token_span ids, index_t vocabulary, std::string const& where) {
  if (auto const i = ids.find_outside(vocabulary); i < ids.size())
    throw config_error(where, "token id " + std::to_string(ids[i]) + " at position " + std::to_string(i),
                       "0 <= id < " + std::to_string(vocabulary), "text and model must share one tokenizer");
}

/// The same for targets; exactly `ignore_target` is allowed besides, no other negative number.
inline void check_targets(std::span<std::int32_t const> targets, index_t vocabulary, std::string const& where) {
  for (std::size_t i = 0; i < targets.size(); ++i)
    if (targets[i] != ignore_target && (targets[i] < 0 || targets[i] >= vocabulary))
      throw config_error(
          where, "target " + std::to_string(targets[i]) + " at position " + std::to_string(i),
          "0 <= target < " + std::to_string(vocabulary) + " or exactly " + std::to_string(ignore_target),
          "only the ignore value is skipped");
}

inline void check_ids(ragged_batch const& batch, index_t vocabulary) {
  check_ids(batch.tokens, vocabulary, "data::ragged_batch");
  check_targets(batch.targets, vocabulary, "data::ragged_batch");
}

}  // namespace accrete::inline v0::data
