#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "accrete/core/config.hpp"
#include "accrete/core/error.hpp"
#include "accrete/core/rng.hpp"
#include "accrete/core/view.hpp"
#include "accrete/data/corpus.hpp"
#include "accrete/data/shuffle.hpp"
#include "accrete/data/split_validation.hpp"

namespace accrete::inline v0::data {

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

ACCRETE_INLINE split_corpus split_validation(corpus const& all, index_t num_documents, seed s) {
  if (!all.mapped.empty()) return detail::split_mapped(all, num_documents, s);
  auto const starts = all.text_starts();  // [N + 1]
  auto const texts = index_t(starts.size()) - 1;
  enum side : char { unused, train, held_out };
  std::vector<side> sides(all.origins.size(), train);
  auto const order = shuffled(texts, random_stream(s, "validation"));
  index_t held = 0;
  std::size_t drawn = 0;
  for (; drawn < order.size() && held < num_documents; ++drawn) {
    auto const text = std::size_t(order[drawn]);
    for (index_t d = starts[text]; d < starts[text + 1]; ++d)
      sides[std::size_t(d)] = held < num_documents ? (++held, held_out) : unused;
  }
  if (num_documents < 0 || held < num_documents || drawn >= order.size())
    detail::too_few_to_split(all.num_documents(), texts, num_documents);

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
