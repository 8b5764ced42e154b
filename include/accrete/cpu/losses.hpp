#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <limits>

#include "accrete/backend/arguments.hpp"
#include "accrete/backend/check.hpp"
#include "accrete/backend/types.hpp"
#include "accrete/cpu/array.hpp"
#include "accrete/cpu/context.hpp"
#include "accrete/cpu/exponentials.hpp"
#include "accrete/cpu/halves.hpp"
#include "accrete/cpu/parallel.hpp"
#include "accrete/cpu/staging.hpp"
#include "accrete/cpu/stream.hpp"

/// Losses in two sweeps over a row of logits. The first takes the exponentials, chunk by chunk, relative to the
/// largest logit met so far, and keeps them where a core's cache holds them; the second only scales what was
/// kept.
namespace accrete::inline v0::cpu {

namespace detail {

inline constexpr index_t logit_chunk = 1024;

/// What one thread needs for a row of V logits: exponentials and, for each chunk, what they are relative to.
template <class T>
struct loss_scratch {
  T* teacher;          // [V]
  T* student;          // [V]
  T* plain;            // [V], of the student at temperature 1, where that is not tau already
  T* teacher_largest;  // [chunks]
  T* student_largest;  // [chunks]
  /// Elements needed, each part on cache lines of its own.
  static index_t size(index_t vocabulary) { return 3 * padded(vocabulary) + 2 * padded(chunks(vocabulary)); }
  static loss_scratch at(T* first, index_t vocabulary) {
    index_t const row = padded(vocabulary);
    T* const chunk = first + 3 * row;
    return {first, first + row, first + 2 * row, chunk, chunk + padded(chunks(vocabulary))};
  }
  static index_t chunks(index_t vocabulary) { return (vocabulary + logit_chunk - 1) / logit_chunk; }
  static index_t padded(index_t n) { return (n + 15) / 16 * 16; }
};

struct row_losses {
  double divergence = 0;     // KL(teacher^tau || student^tau)
  double cross_entropy = 0;  // at temperature 1
};

/// g [n] = entry(i), less `ce` at entry `target` if it is one of them, n at most a chunk.
template <class T, class G, class Entry>
void store_gradient(index_t n, G* g, index_t target, T ce, Entry const& entry) {
  bool const here = target >= 0 && target < n;
  T const at_target = here ? entry(target) - ce : T(0);
  if constexpr (std::same_as<T, G>) {
#pragma omp simd
    for (index_t i = 0; i < n; ++i) g[i] = entry(i);
    if (here) g[target] = at_target;
  } else {
    alignas(64) std::array<G, logit_chunk> place;
    G* const narrow = place.data();
#pragma omp simd
    for (index_t i = 0; i < n; ++i) put(narrow[i], entry(i));
    if (here) narrow[target] = G(at_target);
    stream_copy(narrow, n, g);
  }
}

/// One row: z [V] teacher logits, s [V] student logits -> gradient [V], which may lie over s.
template <class T, class Z, class G>
row_losses distil_row(Z const* z, Z const* s, G* gradient, index_t vocabulary, index_t target,
                      distillation_weights const& w, loss_scratch<T> const& scratch) {
  double const inverse_tau = 1.0 / w.temperature;
  T const cool = T(inverse_tau);
  bool const one_temperature = w.temperature == 1.0;
  constexpr T lowest = std::numeric_limits<T>::lowest();
  double const target_logit = double(T(s[target]));
  T teacher_top = lowest;
  T student_top = lowest;
  // Sums of exponentials relative to the largest so far, and of the teacher's times (z - s).
  double teacher_sum = 0;
  double student_sum = 0;
  double plain_sum = 0;
  double gap_sum = 0;
  for (index_t first = 0, c = 0; first < vocabulary; first += logit_chunk, ++c) {
    index_t const n = (std::min)(logit_chunk, vocabulary - first);
    Z const* const zc = z + first;
    Z const* const sc = s + first;
    if (T const top = largest(zc, n, teacher_top); top > teacher_top) {
      double const shrink = std::exp((double(teacher_top) - double(top)) * inverse_tau);
      teacher_sum *= shrink;
      gap_sum *= shrink;
      teacher_top = top;
    }
    if (T const top = largest(sc, n, student_top); top > student_top) {
      student_sum *= std::exp((double(student_top) - double(top)) * inverse_tau);
      plain_sum *= std::exp(double(student_top) - double(top));
      student_top = top;
    }
    scratch.teacher_largest[c] = teacher_top;
    scratch.student_largest[c] = student_top;
    auto const sums = exponentials<T>{teacher_top, student_top, cool}.take(
        zc, sc, n, scratch.teacher + first, scratch.student + first,
        one_temperature ? nullptr : scratch.plain + first);
    teacher_sum += double(sums.teacher);
    gap_sum += double(sums.gap);
    student_sum += double(sums.student);
    plain_sum += double(sums.plain);
  }
  if (one_temperature) plain_sum = student_sum;

  double const kd = w.per_target * w.alpha * w.temperature;
  double const ce = w.per_target * w.gamma;
  for (index_t first = 0, c = 0; first < vocabulary; first += logit_chunk, ++c) {
    index_t const n = (std::min)(logit_chunk, vocabulary - first);
    double const teacher_drop = double(scratch.teacher_largest[c]) - double(teacher_top);
    double const student_drop = double(scratch.student_largest[c]) - double(student_top);
    T const by_teacher = T(kd / teacher_sum * std::exp(teacher_drop * inverse_tau));
    double const cooled = kd / student_sum * std::exp(student_drop * inverse_tau);
    double const plain = ce / plain_sum * std::exp(student_drop);
    T const by_student = T(one_temperature ? cooled + plain : cooled);
    T const by_plain = T(plain);
    T const* const e = scratch.teacher + first;
    T const* const y = scratch.student + first;
    if (one_temperature) {
      store_gradient(n, gradient + first, target - first, T(ce),
                     [=](index_t i) { return y[i] * by_student - e[i] * by_teacher; });
    } else {
      T const* const p = scratch.plain + first;
      store_gradient(n, gradient + first, target - first, T(ce),
                     [=](index_t i) { return y[i] * by_student - e[i] * by_teacher + p[i] * by_plain; });
    }
  }

  double const top_gap = (double(student_top) - double(teacher_top)) * inverse_tau;
  return {gap_sum / teacher_sum * inverse_tau + top_gap + std::log(student_sum) - std::log(teacher_sum),
          double(student_top) + std::log(plain_sum) - target_logit};
}

}  // namespace detail

/// teacher, student [n, V] logits (the student's are overwritten), targets [n] -> gradient [n, V], which may
/// lie over the student's logits, each row from where theirs begins:
///   sums[0] += tau^2 KL(teacher^tau || student^tau), sums[1] += CE, neither times per_target;
///   gradient = per_target (alpha tau (p_S^tau - p_T^tau) + gamma (p_S - onehot)).
/// Rows whose target is ignore_target are not computed and get a zero gradient. An entry of -inf on both sides
/// is an entry that is not there. Throws shape_error, for a target past the vocabulary too, and config_error
/// for a temperature that is not above 0.
template <class T, class Gemm, class C = computed_as<T>, class Z = logits_as<T>>
void distillation_loss(backend<T, Gemm> const& ctx, args::in2<Z> teacher, args::out2<Z> student,
                       args::out2<T> gradient, args::ids<> targets, distillation_weights weights,
                       args::sums<> sums) {
  check::shape("distillation_loss", "teacher", teacher, student.extents);
  check::shape("distillation_loss", "gradient", gradient, student.extents);
  check::shape("distillation_loss", "targets", targets, {student.rows()});
  check::that(sums.rows() >= 2, "distillation_loss", "fewer than 2 sums", "one for tau^2 KL and one for CE");
  check::targets_below("distillation_loss", targets, student.columns());
  check::temperature("distillation_loss", weights.temperature);
  auto const timing = ctx.timed("distillation_loss", 3.0 * double(student.size()));
  using scratch_of = detail::loss_scratch<C>;
  index_t const rows = student.rows();
  index_t const vocabulary = student.columns();
  index_t const per_thread = scratch_of::size(vocabulary);
  index_t const results = scratch_of::padded(2 * rows) * index_t(sizeof(double) / sizeof(C));
  C* const scratch = ctx.template scratch<C>(results + ctx.threads() * per_thread);
  auto* const losses = reinterpret_cast<detail::row_losses*>(scratch);  // [n], summed in their order below
  for_tasks(ctx.threads(), rows, [&](index_t t, int thread) {
    losses[t] = {};
    if (targets(t) == ignore_target) {
      std::fill_n(gradient.row(t), vocabulary, T(0));
      return;
    }
    losses[t] =
        detail::distil_row(teacher.row(t), student.row(t), gradient.row(t), vocabulary, targets(t), weights,
                           scratch_of::at(scratch + results + thread * per_thread, vocabulary));
  });
  double const tau2 = weights.temperature * weights.temperature;
  for (index_t t = 0; t < rows; ++t) {
    sums(0) += tau2 * losses[t].divergence;
    sums(1) += losses[t].cross_entropy;
  }
}

/// logits [n, V], targets [n]: sums[0] += CE in nats. Rows whose target is ignore_target add nothing. Throws
/// shape_error, for a target past the vocabulary too.
template <class T, class Gemm, class C = computed_as<T>, class Z = logits_as<T>>
void cross_entropy(backend<T, Gemm> const& ctx, args::in2<Z> logits, args::ids<> targets, args::sums<> sums) {
  check::shape("cross_entropy", "targets", targets, {logits.rows()});
  check::that(sums.rows() >= 1, "cross_entropy", "no sum", "at least one");
  check::targets_below("cross_entropy", targets, logits.columns());
  auto const timing = ctx.timed("cross_entropy", double(logits.size()));
  index_t const vocabulary = logits.columns();
  double* const losses = ctx.template scratch<double>(logits.rows());
  for_tasks(ctx.threads(), logits.rows(), [&](index_t t, int) {
    losses[t] = 0;
    if (targets(t) == ignore_target) return;
    Z const* const z = logits.row(t);
    alignas(64) std::array<C, std::size_t(detail::logit_chunk)> room;
    C top = std::numeric_limits<C>::lowest();
    double total = 0;
    for (index_t first = 0; first < vocabulary; first += detail::logit_chunk) {
      index_t const n = (std::min)(detail::logit_chunk, vocabulary - first);
      C const chunk_top = detail::largest(z + first, n, top);
      if (chunk_top > top) {
        total *= std::exp(double(top) - double(chunk_top));
        top = chunk_top;
      }
      C const* const chunk = detail::widen(z + first, n, room.data());
      total += double((detail::array(chunk, n) - top).exp().sum());
    }
    losses[t] = double(top) + std::log(total) - double(C(z[targets(t)]));
  });
  for (index_t t = 0; t < logits.rows(); ++t) sums(0) += losses[t];
}

}  // namespace accrete::inline v0::cpu
