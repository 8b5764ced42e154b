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
#include "accrete/tensor/arena.hpp"

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

/// Of slices that share `rows` among as few as `most` rows allow, in multiples of 32: a last one of three rows
/// would cost as much as one of a hundred.
[[nodiscard]] constexpr index_t even_length(index_t rows, index_t most) {
  index_t const slices = std::max<index_t>(1, (rows + most - 1) / most);
  index_t const each = (rows + slices - 1) / slices;
  return std::max<index_t>(1, (std::min)({most, rows, (each + 31) / 32 * 32}));
}

/// How many tokens' logits exist at once. The student's slice is long, since its weight gradient is a product
/// over the slice; the teacher's, inside it, just long enough for a product's full rate.
struct slice_lengths {
  index_t student = 512;
  index_t teacher = 64;

  /// Of `tokens`, those that fit `bytes` together; never less than one token each. A slice of the student's
  /// walks over its head and that head's gradient six times, one of the teacher's over its head once: work is
  /// least where the student's is about sqrt(6) times as long.
  template <class Logit>
  static slice_lengths within(std::size_t bytes, index_t vocabulary, index_t tokens) {
    auto const per_token = std::size_t(row_distance<Logit>(vocabulary)) * sizeof(Logit);
    index_t const all = std::max<index_t>(2, index_t(bytes / per_token));
    auto const down = [](index_t n) { return n > 32 ? n - n % 32 : n; };
    slice_lengths s;
    s.student = even_length(std::max<index_t>(1, tokens), down(std::max<index_t>(1, all * 5 / 7)));
    s.teacher = even_length(s.student, down(std::clamp<index_t>(all - s.student, 1, 256)));
    return s;
  }
};

/// Both models' heads and the losses between them, a slice of tokens at a time: no [tokens, vocabulary] tensor
/// ever exists. One pass gives the losses, the gradient of the student's head and of what it reads.
template <backend B>
class vocabulary_head {
  using scalar = typename B::scalar;
  using logit = typename B::logit;
  using logits_view = view<logit, 2, typename B::space>;

 public:
  /// Throws config_error unless both slices hold at least one token.
  vocabulary_head(index_t vocabulary, slice_lengths slices)
      : slices_(checked(slices)),
        vocabulary_(vocabulary),
        logits_({slices.student + slices.teacher, row_distance<logit>(vocabulary)}),
        sums_({2}) {}

  [[nodiscard]] slice_lengths slices() const { return slices_; }
  [[nodiscard]] std::size_t bytes() const { return logits_.bytes(); }
  /// The logits' memory, in which nothing lasts from one call to the next.
  [[nodiscard]] view<std::byte, 1, typename B::space> room() {
    return {reinterpret_cast<std::byte*>(logits_.data()), {index_t(logits_.bytes())}};
  }

  /// teacher_hidden [T, D_t], teacher_head [V, D_t]; hidden [T, D]; targets [T]. `dhidden` [T, D] is replaced
  /// and may be `hidden`; pass an empty view to get the losses alone. The head's gradient is added to, if it
  /// has one.
  loss_sums distill(B const& ctx, model::matrix_in<B> teacher_hidden, model::matrix_in<B> teacher_head,
                    model::real_matrix_in<B> hidden, model::parameter<B>& head,
                    view<std::int32_t const, 1, typename B::space> targets, distillation_weights const& weights,
                    model::real_matrix<B> dhidden) {
    check::that(teacher_hidden.rows() == hidden.rows(), "vocabulary_head::distill",
                "teacher and student states of different numbers of tokens", "one state of each for a token");
    check::shape("vocabulary_head::distill", "targets", targets, {hidden.rows()});
    if (!dhidden.empty()) check::shape("vocabulary_head::distill", "dhidden", dhidden, hidden.extents);
    zero_sums(ctx);
    index_t const longest = even_length(hidden.rows(), slices_.student);
    for (index_t first = 0; first < hidden.rows(); first += longest) {
      index_t const count = (std::min)(longest, hidden.rows() - first);
      auto const logits = logits_at(0, count);                        // [n, V]
      auto const read = room_.hold(ctx, hidden.slice(first, count));  // [n, D]
      auto const gradient = gradient_of(logits);                      // [n, V]
      head_logits(ctx, read, head.operand(), targets.slice(first, count), logits);
      index_t const long_enough = even_length(count, slices_.teacher);
      for (index_t inner = 0; inner < count; inner += long_enough) {
        index_t const few = (std::min)(long_enough, count - inner);
        auto const teacher = logits_at(slices_.student, few);
        auto const wanted = targets.slice(first + inner, few);
        head_logits(ctx, teacher_hidden.slice(first + inner, few), teacher_head, wanted, teacher);
        distillation_loss(ctx, teacher, logits.slice(inner, few), gradient.slice(inner, few), wanted, weights,
                          sums_.view());
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
      auto const logits = logits_at(0, count);
      auto const wanted = targets.slice(first, count);
      head_logits(ctx, room_.hold(ctx, hidden.slice(first, count)), head, wanted, logits);
      cross_entropy(ctx, logits, wanted, sums_.view());
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

  logits_view logits_at(index_t first, index_t count) {
    return logits_.view().slice(first, count).column_slice(0, vocabulary_);
  }
  /// The gradient of logits lies over them, each row from where theirs begins.
  static model::matrix<B> gradient_of(logits_view const& logits) {
    constexpr auto ratio = index_t(sizeof(logit) / sizeof(scalar));
    return {reinterpret_cast<scalar*>(logits.data), logits.extents, ratio * logits.stride};
  }

  slice_lengths slices_;
  index_t vocabulary_;
  tensor<logit, 2, typename B::space> logits_;  // the student's slice, then the teacher's
  model::operand_room<B> room_;
  tensor<double, 1, typename B::space> sums_;
};

}  // namespace accrete::inline v0::distillation
