#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>
#include "accrete/core/error.hpp"
#include "accrete/core/rng.hpp"
#include "accrete/core/view.hpp"
#include "accrete/data/corpus.hpp"
#include "accrete/data/ragged_batch.hpp"
#include "accrete/data/shard.hpp"
#include "accrete/data/shuffle.hpp"

namespace accrete::inline v0::data {

/// Where an iterator stands: `position` documents into the order of `epoch`. All that a checkpoint has to keep.
struct order_state {
  index_t epoch = 0;
  index_t position = 0;
  friend bool operator==(order_state const&, order_state const&) = default;
};

/// Walks a shard again and again. The order of an epoch is a function of (seed, epoch) only, never a shuffle of
/// the one before: epoch 0 is the shard as it is, later ones are permutations of it. A batch never mixes two
/// epochs, so that the last of an epoch may be short. The corpus must outlive the iterator.
class document_iterator {
 public:
  document_iterator(corpus const& text, shard documents, seed s)
      : text_(&text), shard_(std::move(documents)), order_(shard_), seed_(s) {
    for (index_t d : shard_)
      if (d < 0 || d >= text.num_documents())
        throw config_error("data::document_iterator", "document " + std::to_string(d) + " in the shard",
                           "0 <= document < " + std::to_string(text.num_documents()),
                           "the shard belongs to another corpus");
    if (shard_.empty())
      throw config_error("data::document_iterator", "a shard of 0 documents", "1 or more", "give more text");
  }

  /// Fills `batch` with whole documents, in order, up to `token_capacity` tokens. Throws `config_error` when
  /// the next document alone is longer. Allocates nothing once the batch has its memory.
  void next_batch(ragged_batch& batch, index_t token_capacity) {
    order_state next = state_;
    if (std::size_t(next.position) == order_.size()) next = {next.epoch + 1, 0};
    restore(next);
    auto const first = std::size_t(state_.position);
    auto const count = documents_in_batch(*text_, order_, first, token_capacity);
    batch.clear();
    for (std::size_t i = first; i < first + count; ++i) batch.append(text_->document(order_[i]), order_[i]);
    state_.position += index_t(count);
  }

  [[nodiscard]] order_state state() const { return state_; }
  /// Throws `config_error` when the state lies outside of the shard.
  void restore(order_state state) {
    if (state.epoch < 0 || state.position < 0 || state.position > index_t(shard_.size()))
      throw config_error(
          "data::document_iterator",
          "epoch " + std::to_string(state.epoch) + ", position " + std::to_string(state.position),
          "a position of 0 to " + std::to_string(shard_.size()),
          "the checkpoint belongs to another corpus or seed");
    if (state.epoch != state_.epoch) {
      std::copy(shard_.begin(), shard_.end(), order_.begin());
      if (state.epoch > 0) shuffle(order_, random_stream(seed_, "order", std::uint64_t(state.epoch)));
    }
    state_ = state;
  }
  /// Back to the first batch.
  void reset() { restore({}); }

  /// The documents of the current epoch, in order.
  [[nodiscard]] std::vector<index_t> const& order() const { return order_; }
  /// True when the next batch starts a new pass; a single pass (an evaluation) stops here.
  [[nodiscard]] bool at_end_of_epoch() const { return std::size_t(state_.position) == order_.size(); }

 private:
  corpus const* text_;
  shard shard_;
  std::vector<index_t> order_;
  seed seed_;
  order_state state_;
};

}  // namespace accrete::inline v0::data
