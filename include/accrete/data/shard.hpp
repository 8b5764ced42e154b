#pragma once
#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>
#include "accrete/core/error.hpp"
#include "accrete/core/rng.hpp"
#include "accrete/core/view.hpp"
#include "accrete/data/corpus.hpp"
#include "accrete/data/shuffle.hpp"

namespace accrete::inline v0::data {

/// The documents a run may train on, as numbers into its corpus, in the order of their first pass.
using shard = std::vector<index_t>;

/// Every document.
inline shard whole_shard(corpus const& text, seed s) {
  return shuffled(text.num_documents(), random_stream(s, "order", 0));
}

/// The number of documents from `first` on that fill one batch: whole ones, in order, up to the capacity.
/// Throws `config_error` when the first one alone is longer.
inline std::size_t documents_in_batch(corpus const& text, std::span<index_t const> order, std::size_t first,
                                      index_t token_capacity) {
  index_t room = token_capacity;
  std::size_t last = first;
  for (; last < order.size() && text.length(order[last]) <= room; ++last) room -= text.length(order[last]);
  if (last == first && first < order.size())
    throw config_error("data::next_batch",
                       "document " + std::to_string(order[first]) + " of " +
                           std::to_string(text.length(order[first])) + " tokens",
                       "at most " + std::to_string(token_capacity) + ", the capacity of a batch",
                       "cut documents shorter or raise the capacity");
  return last - first;
}

/// The first of `documents` that `steps` batches of at most `token_capacity` tokens use. A run that grows
/// replays this shard in every phase; a control on fresh text asks for a shard of all its steps, which starts
/// with the same batches. Throws `config_error` when the documents do not reach.
inline shard shard_for(corpus const& text, shard documents, index_t steps, index_t token_capacity) {
  std::size_t used = 0;
  for (index_t step = 0; step < steps; ++step) {
    if (used == documents.size())
      throw config_error(
          "data::shard_for",
          "text for " + std::to_string(step) + " steps (" + std::to_string(text.num_tokens()) + " tokens in " +
              std::to_string(text.num_documents()) + " documents)",
          "text for " + std::to_string(steps) + " steps of up to " + std::to_string(token_capacity) + " tokens",
          "ask for fewer steps or give more text");
    used += documents_in_batch(text, documents, used, token_capacity);
  }
  documents.resize(used);
  return documents;
}

/// The documents that runs of every seed draw from, so that the teacher is asked once for all of them. It is a
/// row of stretches, each with at least the tokens of `steps` full batches: a seed permutes within a stretch,
/// so every seed finds its batches there, and a longer run starts with the batches of a shorter one.
class document_pool {
 public:
  /// As many stretches as `updates` need; where the corpus ends before, all of it.
  document_pool(corpus const& text, seed s, index_t steps, index_t updates, index_t batch_tokens)
      : documents_(whole_shard(text, s)) {
    std::size_t used = 0;
    for (index_t step = 0; step < updates && used < documents_.size(); step += steps) {
      for (index_t room = steps * batch_tokens; room > 0 && used < documents_.size(); ++used)
        room -= text.length(documents_[used]);
      ends_.push_back(used);
    }
    documents_.resize(used);
  }

  /// All of them, in an order that no run uses.
  [[nodiscard]] shard const& documents() const { return documents_; }

  /// All of them, as a run of this seed meets them.
  [[nodiscard]] shard order(seed s) const {
    shard permuted = documents_;
    std::size_t first = 0;
    for (std::size_t stretch = 0; stretch < ends_.size(); first = ends_[stretch++])
      shuffle(std::span(permuted).subspan(first, ends_[stretch] - first), random_stream(s, "pool", stretch));
    return permuted;
  }

 private:
  shard documents_;
  std::vector<std::size_t> ends_;  // of the stretches
};

}  // namespace accrete::inline v0::data
