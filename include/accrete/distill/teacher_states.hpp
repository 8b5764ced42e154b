#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "accrete/core/error.hpp"
#include "accrete/data/ragged_batch.hpp"
#include "accrete/distill/teacher_cache.hpp"
#include "accrete/model/operand_room.hpp"
#include "accrete/model/parameter.hpp"
#include "accrete/model/teacher.hpp"
#include "accrete/model/token_batch.hpp"
#include "accrete/tensor/tensor.hpp"

namespace accrete::inline v0::distillation {

/// Where a training step gets the teacher's last hidden states from: the teacher itself, run on the step's
/// batch, or its cache. Both give the same numbers up to rounding: a row does not depend on the documents
/// around it, but products over more rows may be summed in another order.
template <backend B>
class teacher_states {
  static_assert(std::is_same_v<typename B::space, mem::host>,
                "[accrete] teacher_states: the teacher must run on a backend of host memory");

 public:
  /// Live: the teacher runs for every batch of at most `capacity` tokens. It must outlive this.
  teacher_states(teacher<B>& t, index_t capacity) : capacity_(capacity), teacher_(&t) {}
  /// From the cache, for batches of at most `capacity` tokens.
  teacher_states(teacher_cache<B> cache, index_t capacity)
      : capacity_(capacity), cache_(std::move(cache)), rows_({capacity, cache_->hidden_size()}) {}

  [[nodiscard]] bool is_live() const { return teacher_ != nullptr; }
  [[nodiscard]] index_t capacity() const { return capacity_; }
  /// The cache; null when live.
  [[nodiscard]] teacher_cache<B> const* cache() const { return cache_ ? &*cache_ : nullptr; }
  /// Bytes of its own that it holds for a step, once it has been asked.
  [[nodiscard]] std::size_t bytes() const {
    return rows_.bytes() + operands_.bytes() + (workspace_ ? workspace_->bytes() : 0);
  }

  /// The batch's hidden states, [T, D], good until the next call. A live teacher works in `lent`, whatever was
  /// there, if that is large enough; its answer lies elsewhere. Throws shape_error for more tokens than the
  /// capacity and config_error for a document the teacher has no positions for; else what
  /// teacher_cache::gather throws.
  [[nodiscard]] model::matrix_in<B> hidden(data::ragged_batch const& batch, view<std::byte, 1> lent = {}) {
    if (batch.num_tokens() > capacity_)
      throw shape_error("distillation::teacher_states",
                        "a batch of " + std::to_string(batch.num_tokens()) + " tokens",
                        "at most " + std::to_string(capacity_), "make it for a larger capacity");
    if (!is_live()) {
      auto const rows = rows_.view().slice(0, batch.num_tokens());
      cache_->gather(batch, rows);
      return rows;
    }
    for (index_t d = 0; d < batch.num_documents(); ++d)
      if (auto const length = index_t(batch.document(d).size()); length > teacher_->max_positions())
        throw config_error("distillation::teacher_states",
                           "a document of " + std::to_string(length) + " tokens",
                           "at most " + std::to_string(teacher_->max_positions()) + ", the teacher's positions",
                           "cut documents shorter");
    if (!workspace_ || lent.data != lent_) {
      workspace_ = teacher_->make_workspace(capacity_, lent);
      lent_ = lent.data;
    }
    auto const& ctx = teacher_->context();
    auto const hidden = teacher_->forward(model::views_of(batch), *workspace_);
    if constexpr (!model::one_format<B>) {
      return operands_.hold(ctx, hidden);
    } else {
      if (workspace_->bytes() > 0) return hidden;
      if (rows_.empty()) rows_ = decltype(rows_)({capacity_, hidden.columns()});
      auto const rows = rows_.view().slice(0, hidden.rows());
      copy(ctx, hidden, rows);
      return rows;
    }
  }

 private:
  index_t capacity_;
  teacher<B>* teacher_ = nullptr;
  std::optional<typename teacher<B>::workspace> workspace_;
  std::byte* lent_ = nullptr;
  std::optional<teacher_cache<B>> cache_;
  tensor<typename B::scalar, 2> rows_;  // [capacity, D], with a cache or where the workspace is lent
  model::operand_room<B> operands_;
};

}  // namespace accrete::inline v0::distillation
