#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>
#include "accrete/core/error.hpp"
#include "accrete/core/rng.hpp"
#include "accrete/core/view.hpp"
#include "accrete/data/shuffle.hpp"

namespace accrete::inline v0::data {

/// How a text becomes documents of at most `max_length` tokens.
struct cutting {
  enum mode {
    first,   ///< one document: the first `max_length` tokens (the paper)
    windows  ///< as many documents as it takes; a rest of one token has no target and is dropped
  };
  mode how = first;
  index_t max_length = 2048;  ///< the default batch's capacity
};

/// Tokenized documents laid end to end. Each has two tokens or more, so each has a target.
struct corpus {
  std::vector<std::int32_t> tokens;  // [T]
  std::vector<index_t> offsets{0};   // [D + 1]
  std::vector<index_t> origins;      // [D] number of the text a document was cut from, ascending
  index_t num_origins = 0;           // texts seen, those without a document included
  index_t dropped = 0;               // texts and rests of fewer than two tokens
  index_t num_empty = 0;             // texts without a character, which have no number

  [[nodiscard]] index_t num_tokens() const { return index_t(tokens.size()); }
  [[nodiscard]] index_t num_documents() const { return index_t(origins.size()); }
  [[nodiscard]] index_t length(index_t d) const {
    return offsets[std::size_t(d) + 1] - offsets[std::size_t(d)];
  }
  [[nodiscard]] std::span<std::int32_t const> document(index_t d) const {
    return std::span(tokens).subspan(std::size_t(offsets[std::size_t(d)]), std::size_t(length(d)));
  }

  /// Adds one text, cut as asked. Throws `config_error` when `max_length` is below 2.
  void append(std::span<std::int32_t const> text, cutting const& cut) {
    if (cut.max_length < 2)
      throw config_error("data::cutting", "max_length " + std::to_string(cut.max_length), "2 or more",
                         "a document of one token has no target");
    auto const window = std::size_t(cut.max_length);
    std::size_t const end = cut.how == cutting::first ? (std::min)(text.size(), window) : text.size();
    if (end == 0) ++dropped;
    for (std::size_t at = 0; at < end; at += window) {
      auto const part = text.subspan(at, (std::min)(window, end - at));
      if (part.size() < 2) {
        ++dropped;
        continue;
      }
      tokens.insert(tokens.end(), part.begin(), part.end());
      offsets.push_back(num_tokens());
      origins.push_back(num_origins);
    }
    ++num_origins;
  }

  /// 64 bits over tokens and offsets, the same on every machine: a cache key, no protection against malice.
  [[nodiscard]] std::uint64_t identity() const {
    std::uint64_t h = 0xcbf29ce484222325ull;
    auto const mix = [&h](std::uint64_t v) {
      h = (h ^ v) * 0x9e3779b97f4a7c15ull;
      h ^= h >> 29;
    };
    mix(offsets.size());
    for (index_t offset : offsets) mix(std::uint64_t(offset));
    for (std::int32_t token : tokens) mix(std::uint32_t(token));
    return h;
  }
};

/// A corpus in two: what is trained on and what is held out.
struct split_corpus {
  corpus training, validation;
};

/// Holds out `num_documents` documents, drawn by whole texts, so that two windows of one text are never on both
/// sides; windows of the last text drawn that are not needed are on neither. A function of (corpus, seed) only.
/// Throws `config_error` when nothing would be left to train on.
inline split_corpus split_validation(corpus const& all, index_t num_documents, seed s) {
  enum side : char { unused, train, held_out };
  std::vector<side> sides(all.origins.size(), train);
  std::vector<index_t> first;  // the first document of each text that has any
  for (index_t d = 0; d < all.num_documents(); ++d)
    if (d == 0 || all.origins[std::size_t(d)] != all.origins[std::size_t(d) - 1]) first.push_back(d);

  auto const order = shuffled(index_t(first.size()), random_stream(s, "validation"));
  index_t held = 0;
  std::size_t drawn = 0;
  for (; drawn < order.size() && held < num_documents; ++drawn) {
    index_t d = first[std::size_t(order[drawn])];
    index_t const origin = all.origins[std::size_t(d)];
    for (; d < all.num_documents() && all.origins[std::size_t(d)] == origin; ++d)
      sides[std::size_t(d)] = held < num_documents ? (++held, held_out) : unused;
  }
  if (num_documents < 0 || held < num_documents || drawn >= order.size())
    throw config_error(
        "data::split_validation",
        std::to_string(all.num_documents()) + " documents of " + std::to_string(first.size()) + " texts",
        std::to_string(num_documents) + " to hold out and a text left to train on",
        "give more text or hold out less");

  split_corpus parts;
  for (index_t d = 0; d < all.num_documents(); ++d) {
    if (sides[std::size_t(d)] == unused) continue;
    corpus& part = sides[std::size_t(d)] == train ? parts.training : parts.validation;
    auto const document = all.document(d);
    part.tokens.insert(part.tokens.end(), document.begin(), document.end());
    part.offsets.push_back(part.num_tokens());
    part.origins.push_back(all.origins[std::size_t(d)]);
  }
  parts.training.num_origins = parts.validation.num_origins = all.num_origins;
  return parts;
}

}  // namespace accrete::inline v0::data
