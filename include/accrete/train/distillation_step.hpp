#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <string>

#include "accrete/backend/profile.hpp"
#include "accrete/core/error.hpp"
#include "accrete/core/view.hpp"
#include "accrete/data/corpus.hpp"
#include "accrete/data/document_order.hpp"
#include "accrete/data/ragged_batch.hpp"
#include "accrete/data/shard.hpp"
#include "accrete/distill/teacher_states.hpp"
#include "accrete/distill/vocabulary_head.hpp"
#include "accrete/model/grown_model.hpp"
#include "accrete/model/parameter.hpp"
#include "accrete/model/teacher.hpp"
#include "accrete/model/token_batch.hpp"
#include "accrete/train/finite.hpp"
#include "accrete/train/optimizer.hpp"
#include "accrete/train/recipe.hpp"

namespace accrete::inline v0::train {

/// The arithmetic of training: gradients of a student's losses to its teacher, the update that follows from
/// them, and the losses alone. Holds the memory for it. Knows nothing of plans, records or files.
template <backend B>
class distillation_step {
  using student_type = model::grown_model<B>;

 public:
  using workspace = typename student_type::workspace;

  /// Student and teacher must outlive it. `resize` comes first, and again when the student has grown.
  distillation_step(student_type& s, teacher<B>& t, recipe const& r)
      : student_(s),
        teacher_(t),
        recipe_(r),
        head_(t.config().vocab_size, distillation::slice_lengths::within<typename B::logit>(
                                         r.logits_bytes, t.config().vocab_size, r.micro_capacity())) {
    micro_.reserve(recipe_.micro_capacity(), recipe_.micro_capacity());
  }

  /// Memory for the student as it is.
  void resize() {
    workspace_ = workspace();  // freed before the larger one is made
    workspace_ = student_.make_workspace(recipe_.micro_capacity(), recipe_.recompute, head_.room());
  }
  [[nodiscard]] workspace const& memory() const { return workspace_; }
  /// Of activations and logits.
  [[nodiscard]] std::size_t bytes() const { return workspace_.bytes() + head_.bytes(); }

  /// What is minimized, of means over target tokens.
  [[nodiscard]] double loss_of(double kd, double ce) const { return recipe_.alpha * kd + recipe_.gamma * ce; }

  /// Replaces all gradients by those of the batch's mean loss. A batch that does not fit in memory is gone
  /// through whole documents at a time.
  distillation::loss_sums compute_gradients(data::ragged_batch const& batch,
                                            distillation::teacher_states<B>& states) {
    zero_gradients(student_);
    auto const weights = recipe_.weights(batch.num_targets);
    distillation::loss_sums sums;
    for_each_micro_batch(batch, [&](data::ragged_batch const& micro) {
      sums += losses_of(micro, states, weights, workspace_.dhidden.slice(0, micro.num_tokens()));
      auto const timing = stretch(student_.context(), "student's backward");
      student_.backward(model::views_of(micro), workspace_);
    });
    return sums;
  }

  /// Clip and AdamW, after `compute_gradients` gave `sums`. Throws numeric_error where loss or gradient is not
  /// finite; then not a weight, moment or count has changed.
  update_report update(distillation::loss_sums const& sums, double learning_rate, index_t step) {
    if (!is_finite(sums)) {
      require_finite_weights(student_, "step " + std::to_string(step));
      gradient_norm(student_, step);
      refuse_loss("step " + std::to_string(step), sums);
    }
    auto const timing = stretch(student_.context(), "clip and AdamW");
    return apply_adamw(student_, recipe_, learning_rate, step);
  }

  /// Losses of the student as it is on some documents, nothing where `stop()` says so before it is through.
  /// Throws numeric_error that begins with `where` for a loss that is not finite.
  template <class Stop>
  std::optional<distillation::loss_sums> losses_on(data::corpus const& text, data::shard const& documents,
                                                   distillation::teacher_states<B>& states,
                                                   std::string const& where, Stop&& stop) {
    distillation::loss_sums sums;
    data::document_iterator walk(text, documents, recipe_.seed);
    do {
      if (stop()) return std::nullopt;
      walk.next_batch(micro_, recipe_.micro_capacity());
      sums += losses_of(micro_, states, recipe_.weights(micro_.num_targets), {});
    } while (!walk.at_end_of_epoch());
    if (!is_finite(sums)) {
      require_finite_weights(student_, where);
      refuse_loss(where, sums);
    }
    return sums;
  }

  /// Useful floating-point operations of an update: forward, backward where something below still trains,
  /// heads, and the teacher where it runs as well.
  double operations(data::ragged_batch const& batch, bool teacher_runs) {
    double const length = double(batch.num_tokens()) / double(std::max<index_t>(1, batch.num_documents()));
    double const per_layer = student_.stack().multiply_adds(length) / student_.active_layers();
    double trained = 0;  // products of a backward, in forwards: one for the input, one for the weights
    for (int l = workspace_.first_kept; l < student_.active_layers(); ++l)
      trained += student_.stack().layers()[std::size_t(l)].qkv.trainable() ? 2 : 1;
    double const head = double(teacher_.config().vocab_size) * double(student_.config().hidden_size);
    double const head_products = (student_.head().trainable() ? 3 : 2) + 1;  // and the teacher's
    double multiply_adds = per_layer * (student_.active_layers() + trained) + head_products * head;
    if (teacher_runs) multiply_adds += teacher_.stack().multiply_adds(length);
    return 2.0 * multiply_adds * double(batch.num_tokens());
  }

 private:
  /// `dhidden` as vocabulary_head::distill takes it.
  distillation::loss_sums losses_of(data::ragged_batch const& tokens, distillation::teacher_states<B>& states,
                                    distillation_weights const& weights, model::real_matrix<B> dhidden) {
    auto const batch = model::views_of(tokens);
    auto const asked = [&] {
      auto const timing = stretch(student_.context(), "teacher's states");
      return states.hidden(tokens, head_.room());  // logits come after
    }();
    auto const hidden = [&] {
      auto const timing = stretch(student_.context(), "student's forward");
      return student_.forward(batch, workspace_);
    }();
    auto const timing = stretch(student_.context(), "heads and losses");
    return head_.distill(student_.context(), asked, teacher_.head()->view(), hidden, student_.head(),
                         batch.targets, weights, dhidden);
  }

  /// The batch as it is if it fits, else whole documents at a time.
  template <class Use>
  void for_each_micro_batch(data::ragged_batch const& batch, Use&& use) {
    index_t const capacity = recipe_.micro_capacity();
    if (batch.num_tokens() <= capacity) return use(batch);
    for (index_t d = 0; d < batch.num_documents();) {
      micro_.clear();
      for (; d < batch.num_documents(); ++d) {
        auto const document = batch.document(d);
        if (!micro_.empty() && micro_.num_tokens() + index_t(document.size()) > capacity) break;
        micro_.append(document, batch.documents[std::size_t(d)]);
      }
      use(micro_);
    }
  }

  [[nodiscard]] bool is_finite(distillation::loss_sums const& sums) const {
    return std::isfinite(loss_of(sums.mean_kd(), sums.mean_ce()));
  }
  /// To be called when no parameter is to blame.
  [[noreturn]] void refuse_loss(std::string const& where, distillation::loss_sums const& sums) const {
    double const kd = sums.mean_kd(), ce = sums.mean_ce();
    throw numeric_error(where,
                        "a loss of " + std::to_string(loss_of(kd, ce)) + " (kd " + std::to_string(kd) +
                            ", ce " + std::to_string(ce) + ")",
                        "a finite number", "lower the learning rate, or look at the batch");
  }

  student_type& student_;
  teacher<B>& teacher_;
  recipe recipe_;
  distillation::vocabulary_head<B> head_;
  data::ragged_batch micro_;
  workspace workspace_;
};

}  // namespace accrete::inline v0::train
