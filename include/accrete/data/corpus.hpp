#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>
#include "accrete/core/error.hpp"
#include "accrete/core/rng.hpp"
#include "accrete/core/view.hpp"
#include "accrete/data/cutting.hpp"
#include "accrete/data/shuffle.hpp"
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

/// A corpus in two: what is trained on and what is held out.
struct split_corpus {
  corpus training, validation;
};

namespace detail {
[[noreturn]] inline void too_few_to_split(index_t documents, index_t texts, index_t wanted) {
  throw config_error(
      "data::split_validation", std::to_string(documents) + " documents of " + std::to_string(texts) + " texts",
      std::to_string(wanted) + " to hold out and a text left to train on", "give more text or hold out less");
}

/// The same for shards, without looking at more than the texts that are drawn.
inline split_corpus split_mapped(corpus const& all, index_t num_documents, seed s) {
  // Texts are numbered through all stretches. A stretch begins and ends with a text of its shard.
  struct numbered {
    corpus::stretch const* of;
    index_t first_text, end_text, number;  // of its first text
  };
  std::vector<numbered> stretches;
  index_t texts = 0;
  for (auto const& m : all.mapped) {
    auto const text_at = [&](index_t document) {  // the text that begins there, by bisection
      index_t low = 0, high = m.shard->num_texts();
      while (low < high) {
        index_t const middle = low + (high - low) / 2;
        if (m.shard->text_start(middle) < document)
          low = middle + 1;
        else
          high = middle;
      }
      return low;
    };
    index_t const first = text_at(m.first_in_shard), end = text_at(m.first_in_shard + m.count);
    stretches.push_back({&m, first, end, texts});
    texts += end - first;
  }
  auto const fault = [&] { too_few_to_split(all.num_documents(), texts, num_documents); };
  if (num_documents < 0 || texts < 1) fault();

  // A shuffle of all texts of which only the first few are made: what has been swapped away is kept in a map.
  random_stream const stream(s, "validation");
  std::map<index_t, index_t> swapped;
  auto const text_in = [&](index_t place) {
    auto const at = swapped.find(place);
    return at == swapped.end() ? place : at->second;
  };
  struct drawn {
    std::size_t stretch;
    index_t first, end, kept;  // documents of the shard; the first `kept` are held out
  };
  std::vector<drawn> out;
  for (index_t i = 0, held = 0; held < num_documents; ++i) {
    if (i + 1 >= texts) fault();
    auto const j = i + index_t(stream.below(std::uint64_t(i), std::uint64_t(texts - i)));
    index_t const number = text_in(j);
    swapped[j] = text_in(i);
    auto const after = std::upper_bound(stretches.begin(), stretches.end(), number,
                                        [](index_t n, numbered const& x) { return n < x.number; });
    auto const& in = *std::prev(after);
    index_t const text = in.first_text + number - in.number;
    index_t const first = in.of->shard->text_start(text), end = in.of->shard->text_start(text + 1);
    if (end <= first)
      throw io_error(in.of->shard->where(), "text " + std::to_string(text) + " without a document", "1 or more",
                     "the file may be damaged");
    index_t const kept = (std::min)(end - first, num_documents - held);
    held += kept;
    out.push_back({std::size_t(&in - stretches.data()), first, end, kept});
  }
  std::sort(out.begin(), out.end(), [](drawn const& a, drawn const& b) {
    return a.stretch != b.stretch ? a.stretch < b.stretch : a.first < b.first;
  });
  split_corpus parts;
  std::size_t next = 0;
  for (std::size_t k = 0; k < stretches.size(); ++k) {
    auto const& m = *stretches[k].of;
    index_t at = m.first_in_shard;
    for (; next < out.size() && out[next].stretch == k; ++next) {
      parts.training.append(m.shard, at, out[next].first - at);
      parts.validation.append(m.shard, out[next].first, out[next].kept);
      at = out[next].end;
    }
    parts.training.append(m.shard, at, m.first_in_shard + m.count - at);
  }
  parts.training.num_origins = parts.validation.num_origins = all.num_origins;
  return parts;
}
}  // namespace detail

/// Holds out `num_documents` documents, drawn by whole texts, so that two windows of one text are never on both
/// sides; windows of the last text drawn that are not needed are on neither. A function of (corpus, seed) only.
/// Throws `config_error` when nothing would be left to train on.
inline split_corpus split_validation(corpus const& all, index_t num_documents, seed s) {
  if (!all.mapped.empty()) return detail::split_mapped(all, num_documents, s);
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
    detail::too_few_to_split(all.num_documents(), index_t(first.size()), num_documents);

  split_corpus parts;
  for (index_t d = 0; d < all.num_documents(); ++d) {
    if (sides[std::size_t(d)] == unused) continue;
    corpus& part = sides[std::size_t(d)] == train ? parts.training : parts.validation;
    auto const document = all.document(d);
    auto const before = part.tokens.size();
    part.tokens.resize(before + std::size_t(document.size()));
    document.copy_to(part.tokens.data() + before);
    part.offsets.push_back(part.num_tokens());
    part.origins.push_back(all.origins[std::size_t(d)]);
  }
  parts.training.num_origins = parts.validation.num_origins = all.num_origins;
  return parts;
}

}  // namespace accrete::inline v0::data
