#pragma once
#include <algorithm>
#include <cmath>
#include <concepts>
#include <limits>

#include "accrete/backend/arguments.hpp"
#include "accrete/backend/check.hpp"
#include "accrete/backend/types.hpp"
#include "accrete/reference/context.hpp"
#include "accrete/reference/linear.hpp"

namespace accrete::inline v0::reference {

namespace detail {

/// log(sum_i exp(z_i / temperature)) with the largest taken out first, so nothing overflows.
template <class T>
double log_sum_exp(T const* z, index_t n, double temperature) {
  double largest = -std::numeric_limits<double>::infinity();
  for (index_t i = 0; i < n; ++i) largest = (std::max)(largest, double(z[i]) / temperature);
  double sum = 0;
  for (index_t i = 0; i < n; ++i) sum += std::exp(double(z[i]) / temperature - largest);
  return largest + std::log(sum);
}

}  // namespace detail

/// x [n, D], head [V, D] -> logits [n, V] = x head^T, whatever the targets [n] are. Throws shape_error.
template <std::floating_point T>
void head_logits(backend<T> const& ctx, args::in2<T> x, args::in2<T> head, args::ids<> targets,
                 args::out2<T> logits) {
  check::shape("head_logits", "targets", targets, {x.rows()});
  check::targets_below("head_logits", targets, head.rows());
  linear(ctx, x, head, logits, store::replace);
}

/// teacher, student [n, V] logits, targets [n] -> gradient [n, V], which may be the student's logits themselves:
///   sums[0] += tau^2 KL(teacher^tau || student^tau), sums[1] += CE, neither times per_target;
///   gradient = per_target (alpha tau (p_S^tau - p_T^tau) + gamma (p_S - onehot)).
/// An entry of -inf on both sides is an entry that is not there. Throws shape_error for a target past the
/// vocabulary, config_error for a temperature that is not above 0.
template <std::floating_point T>
void distillation_loss(backend<T> const&, args::in2<T> teacher, args::out2<T> student, args::out2<T> gradient,
                       args::ids<> targets, distillation_weights weights, args::sums<> sums) {
  check::shape("distillation_loss", "teacher", teacher, student.extents);
  check::shape("distillation_loss", "gradient", gradient, student.extents);
  check::shape("distillation_loss", "targets", targets, {student.rows()});
  check::that(sums.rows() >= 2, "distillation_loss", "fewer than 2 sums", "one for tau^2 KL and one for CE");
  check::targets_below("distillation_loss", targets, student.columns());
  check::temperature("distillation_loss", weights.temperature);
  index_t const vocabulary = student.columns();
  double const tau = weights.temperature;
  for (index_t t = 0; t < student.rows(); ++t) {
    T const* z_t = teacher.row(t);
    T const* z_s = student.row(t);
    T* const g = gradient.row(t);
    if (targets(t) == ignore_target) {
      std::fill_n(g, vocabulary, T(0));
      continue;
    }
    double const teacher_total = detail::log_sum_exp(z_t, vocabulary, tau);
    double const student_total = detail::log_sum_exp(z_s, vocabulary, tau);
    double const plain_total = detail::log_sum_exp(z_s, vocabulary, 1.0);
    sums(1) += plain_total - double(z_s[targets(t)]);
    double divergence = 0;
    for (index_t i = 0; i < vocabulary; ++i) {
      double const log_teacher = double(z_t[i]) / tau - teacher_total;
      double const log_student = double(z_s[i]) / tau - student_total;
      double const p_teacher = std::exp(log_teacher);
      if (p_teacher > 0) divergence += p_teacher * (log_teacher - log_student);
      double const onehot = i == targets(t) ? 1.0 : 0.0;
      double const kd = weights.alpha * tau * (std::exp(log_student) - p_teacher);
      double const ce = weights.gamma * (std::exp(double(z_s[i]) - plain_total) - onehot);
      g[i] = static_cast<T>(weights.per_target * (kd + ce));
    }
    sums(0) += tau * tau * divergence;
  }
}

/// logits [n, V], targets [n]: sums[0] += CE in nats. Rows whose target is ignore_target add nothing.
template <std::floating_point T>
void cross_entropy(backend<T> const&, args::in2<T> logits, args::ids<> targets, args::sums<> sums) {
  check::shape("cross_entropy", "targets", targets, {logits.rows()});
  check::that(sums.rows() >= 1, "cross_entropy", "no sum", "at least one");
  check::targets_below("cross_entropy", targets, logits.columns());
  for (index_t t = 0; t < logits.rows(); ++t) {
    if (targets(t) == ignore_target) continue;
    sums(0) += detail::log_sum_exp(logits.row(t), logits.columns(), 1.0) - double(logits(t, targets(t)));
  }
}

}  // namespace accrete::inline v0::reference
