#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>
#include "accrete/core/error.hpp"
#include "accrete/core/view.hpp"
#include "accrete/data/cutting.hpp"
#include "accrete/data/token_shard.hpp"
#include "accrete/data/token_span.hpp"

namespace accrete::inline v0::data {

/// Documents of tokens. Each has two tokens or more, so each has a target. They lie end to end in the corpus'
/// own memory, or in mapped shards, of which it then is a list of stretches.
struct corpus {
  std::vector<std::int32_t> tokens;  // [T]
  std::vector<index_t> offsets{0};   // [D + 1]
  std::vector<index_t> origins;      // [D] number of the text a document was cut from, ascending
  index_t num_origins = 0;           // texts seen, those without a document included
  index_t dropped = 0;               // texts and rests of fewer than two tokens
  index_t num_empty = 0;             // texts without a character, which have no number

  /// Documents of a shard that follow each other.
  struct stretch {
    std::shared_ptr<token_shard const> shard;
    index_t first_in_shard = 0;
    index_t count = 0;
    index_t first = 0;  ///< number of the first one in the corpus
  };
  std::vector<stretch> mapped{};  // instead of the vectors above, not beside them

  /// Adds documents of a shard; none at all where `count` is 0.
  void append(std::shared_ptr<token_shard const> const& shard, index_t first_in_shard, index_t count) {
    if (!origins.empty())
      throw config_error("data::corpus", "a shard beside text", "one of the two",
                         "make shards of the text as well");
    if (count > 0) mapped.push_back({shard, first_in_shard, count, num_documents()});
  }

  [[nodiscard]] index_t num_tokens() const {
    auto n = index_t(tokens.size());
    for (auto const& m : mapped)
      n += m.shard->offset(m.first_in_shard + m.count) - m.shard->offset(m.first_in_shard);
    return n;
  }
  [[nodiscard]] index_t num_documents() const {
    return mapped.empty() ? index_t(origins.size()) : mapped.back().first + mapped.back().count;
  }
  [[nodiscard]] index_t length(index_t d) const {
    if (!mapped.empty()) {
      auto const& m = stretch_of(d);
      return m.shard->length(m.first_in_shard + d - m.first);
    }
    return offsets[std::size_t(d) + 1] - offsets[std::size_t(d)];
  }
  /// A mapped one is checked on the way: `io_error` where the file is damaged.
  [[nodiscard]] token_span document(index_t d) const {
    if (!mapped.empty()) {
      auto const& m = stretch_of(d);
      return m.shard->document(m.first_in_shard + d - m.first);
    }
    return std::span(tokens).subspan(std::size_t(offsets[std::size_t(d)]), std::size_t(length(d)));
  }

  /// Adds one text, cut as asked. Throws `config_error` when `max_length` is below 2.
  void append(std::span<std::int32_t const> text, cutting const& cut) {
    if (cut.max_length < 2)
      throw config_error("data::cutting", "max_length " + std::to_string(cut.max_length), "2 or more",
                         "a document of one token has no target");
    if (!mapped.empty())
      throw config_error("data::corpus", "text beside shards", "one of the two",
                         "make shards of the text as well");
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

  /// [N + 1] where each text that has a document begins, and the end; of text in memory, not of shards.
  [[nodiscard]] std::vector<index_t> text_starts() const {
    std::vector<index_t> starts;
    for (std::size_t d = 0; d < origins.size(); ++d)
      if (d == 0 || origins[d] != origins[d - 1]) starts.push_back(index_t(d));
    starts.push_back(index_t(origins.size()));
    return starts;
  }

  /// 64 bits over tokens and offsets, the same on every machine: a cache key, no protection against malice. Of
  /// shards it takes the hash that their writer noted, since reading all of them may take hours.
  [[nodiscard]] std::uint64_t identity() const {
    std::uint64_t h = 0xcbf29ce484222325ull;
    auto const mix = [&h](std::uint64_t v) {
      h = (h ^ v) * 0x9e3779b97f4a7c15ull;
      h ^= h >> 29;
    };
    for (auto const& m : mapped) {
      for (char const c : m.shard->facts().content) mix(static_cast<unsigned char>(c));
      mix(std::uint64_t(m.first_in_shard));
      mix(std::uint64_t(m.count));
    }
    mix(offsets.size());
    for (index_t offset : offsets) mix(std::uint64_t(offset));
    for (std::int32_t token : tokens) mix(std::uint32_t(token));
    return h;
  }

 private:
  [[nodiscard]] stretch const& stretch_of(index_t d) const {
    auto const after = std::upper_bound(mapped.begin(), mapped.end(), d,
                                        [](index_t number, stretch const& m) { return number < m.first; });
    return *std::prev(after);
  }
};

}  // namespace accrete::inline v0::data
