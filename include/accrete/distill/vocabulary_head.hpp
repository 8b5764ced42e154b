#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

#include "accrete/backend/check.hpp"
#include "accrete/core/error.hpp"
#include "accrete/core/target.hpp"
#include "accrete/model/operand_room.hpp"
#include "accrete/model/parameter.hpp"

namespace accrete::inline v0::distillation {

/// Sums over target tokens, in nats.
struct loss_sums {
  double kd = 0;  ///< tau^2 KL(teacher || student)
  double ce = 0;
  index_t targets = 0;

  loss_sums& operator+=(loss_sums const& o) {
    kd += o.kd;
    ce += o.ce;
    targets += o.targets;
    return *this;
  }
  /// Means over target tokens; 0 where there is none.
  [[nodiscard]] double mean_kd() const { return targets > 0 ? kd / double(targets) : 0.0; }
  [[nodiscard]] double mean_ce() const { return targets > 0 ? ce / double(targets) : 0.0; }
};

/// How many tokens' logits exist at once. The student's slice is long, since its weight gradient is a product
/// over the slice; the teacher's, inside it, is short.
struct slice_lengths {
  index_t student = 512;
  index_t teacher = 64;

  /// The longest student slice, in multiples of 64 tokens, that fits `bytes` together with a teacher slice of
  /// at most 64 tokens; never less than one token.
  static slice_lengths within(std::size_t bytes, index_t vocabulary, std::size_t element, index_t tokens) {
    auto const per_token = std::size_t(vocabulary) * element;
    index_t const all = std::max<index_t>(1, index_t(bytes / per_token));
    slice_lengths s;
    s.teacher = std::clamp<index_t>(all / 4, 1, 64);
    s.student = std::max<index_t>(1, all - s.teacher);
    if (s.student > 64) s.student -= s.student % 64;
    s.student = (std::min)(s.student, std::max<index_t>(1, tokens));
    s.teacher = (std::min)(s.teacher, s.student);
    return s;
  }
};

/// Both models' heads and the losses between them, a slice of tokens at a time: no [tokens, vocabulary] tensor
/// ever exists. One pass gives the losses, the gradient of the student's head and of what it reads.
template <backend B>
class vocabulary_head {
 public:
  /// Throws config_error unless both slices hold at least one token.
  vocabulary_head(index_t vocabulary, slice_lengths slices)
      : slices_(checked(slices)),
        student_logits_({slices.student, vocabulary}),
        teacher_logits_({slices.teacher, vocabulary}),
        gradient_(model::one_format<B> ? decltype(gradient_)() : decltype(gradient_)({slices.student, vocabulary})),
        sums_({2}) {}

  /// Bytes of one student logit with its gradient: what slices are cut by.
  static constexpr std::size_t bytes_per_logit =
      sizeof(typename B::real) + (model::one_format<B> ? 0 : sizeof(typename B::scalar));

  [[nodiscard]] slice_lengths slices() const { return slices_; }
  [[nodiscard]] std::size_t bytes() const {
    return student_logits_.bytes() + teacher_logits_.bytes() + gradient_.bytes();
  }

  /// teacher_hidden [T, D_t], teacher_head [V, D_t]; hidden [T, D]; targets [T]. `dhidden` [T, D] is replaced;
  /// pass an empty view to get the losses alone. The head's gradient is added to, if it has one.
  loss_sums distill(B const& ctx, model::matrix_in<B> teacher_hidden, model::matrix_in<B> teacher_head,
                    model::real_matrix_in<B> hidden, model::parameter<B>& head,
                    view<std::int32_t const, 1, typename B::space> targets, distillation_weights const& weights,
                    model::real_matrix<B> dhidden) {
    check::that(teacher_hidden.rows() == hidden.rows(), "vocabulary_head::distill",
                "teacher and student states of different numbers of tokens", "one state of each for a token");
    check::shape("vocabulary_head::distill", "targets", targets, {hidden.rows()});
    if (!dhidden.empty()) check::shape("vocabulary_head::distill", "dhidden", dhidden, hidden.extents);
    zero_sums(ctx);
    for (index_t first = 0; first < hidden.rows(); first += slices_.student) {
      index_t const count = (std::min)(slices_.student, hidden.rows() - first);
      auto const logits = student_logits_.view().slice(0, count);  // [n, V]
      auto const read = room_.hold(ctx, hidden.slice(first, count));  // [n, D]
      auto const gradient = gradient_of(logits);                      // [n, V]
      linear(ctx, read, head.operand(), logits, store::replace);
      for (index_t inner = 0; inner < count; inner += slices_.teacher) {
        index_t const few = (std::min)(slices_.teacher, count - inner);
        auto const teacher = teacher_logits_.view().slice(0, few);
        linear(ctx, teacher_hidden.slice(first + inner, few), teacher_head, teacher, store::replace);
        distillation_loss(ctx, teacher, logits.slice(inner, few), gradient.slice(inner, few),
                          targets.slice(first + inner, few), weights, sums_.view());
      }
      if (dhidden.empty()) continue;
      if (head.trainable()) linear_backward_weight(ctx, gradient, read, head.gradient.view(), store::add);
      linear_backward_input(ctx, gradient, head.operand(), dhidden.slice(first, count), store::replace);
    }
    auto const [kd, ce] = read_sums(ctx);
    return {kd, ce, count(targets)};
  }

  /// Cross-entropy of one model: hidden [T, D], head [V, D], targets [T].
  loss_sums cross_entropy_of(B const& ctx, model::real_matrix_in<B> hidden, model::matrix_in<B> head,
                             view<std::int32_t const, 1, typename B::space> targets) {
    check::shape("vocabulary_head::cross_entropy_of", "targets", targets, {hidden.rows()});
    zero_sums(ctx);
    for (index_t first = 0; first < hidden.rows(); first += slices_.student) {
      index_t const count = (std::min)(slices_.student, hidden.rows() - first);
      auto const logits = student_logits_.view().slice(0, count);
      linear(ctx, room_.hold(ctx, hidden.slice(first, count)), head, logits, store::replace);
      cross_entropy(ctx, logits, targets.slice(first, count), sums_.view());
    }
    return {0, read_sums(ctx).first, count(targets)};
  }

 private:
  static slice_lengths checked(slice_lengths s) {
    if (s.student < 1 || s.teacher < 1)
      throw config_error(
          "vocabulary_head",
          "slices of " + std::to_string(s.student) + " and " + std::to_string(s.teacher) + " tokens",
          "at least 1 each");
    return s;
  }
  // Sums and targets live where the losses are computed; a backend that is not the host's brings them over.
  static_assert(std::is_same_v<typename B::space, mem::host>);
  void zero_sums(B const&) { sums_.view()(0) = sums_.view()(1) = 0; }
  std::pair<double, double> read_sums(B const&) { return {sums_.view()(0), sums_.view()(1)}; }
  static index_t count(view<std::int32_t const, 1, typename B::space> targets) {
    return targets.rows() - index_t(std::count(targets.data, targets.data + targets.rows(), ignore_target));
  }

  /// Where the gradient of logits goes: over them, or beside them in the format that products read.
  model::matrix<B> gradient_of(model::real_matrix<B> const& logits) {
    if constexpr (model::one_format<B>)
      return logits;
    else
      return gradient_.view().slice(0, logits.rows());
  }

  slice_lengths slices_;
  tensor<typename B::real, 2, typename B::space> student_logits_, teacher_logits_;
  tensor<typename B::scalar, 2, typename B::space> gradient_;
  model::operand_room<B> room_;
  tensor<double, 1, typename B::space> sums_;
};

}  // namespace accrete::inline v0::distillation
