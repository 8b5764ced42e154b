#pragma once
#include <Eigen/Core>

#include "accrete/core/view.hpp"

namespace accrete::inline v0::cpu::detail {

/// exp((x - top) / temperature) of logits, and the sums of them.
template <class T>
struct exponentials {
  T teacher_top, student_top, cool;  ///< what logits are relative to; 1 / temperature

  struct sums {
    T teacher = 0, student = 0;
    T plain = 0;  ///< the student's at temperature 1
  };

  /// z, s [n] logits of teacher and student -> e, y [n] their exponentials, p [n] the student's at temperature
  /// 1, unless null. In one pass, where Eigen's expressions would take one for each line. Both sides are summed
  /// in the same order: where they are equal, their errors are too, and cancel.
  sums take(T const* z, T const* s, index_t n, T* e, T* y, T* p) const {
    constexpr int width = 16;        // numbers at a time: of f32, the widest vector register
    constexpr index_t ahead = 1024;  // numbers: memory is asked for what follows while this is computed
    using lanes = Eigen::Array<T, width, 1>;
    using rest = Eigen::Array<T, Eigen::Dynamic, 1, Eigen::ColMajor, width, 1>;
    lanes teacher = lanes::Zero(), student = teacher, plain = teacher;
    index_t i = 0;
    for (; i + width <= n; i += width) {
      __builtin_prefetch(z + i + ahead);
      __builtin_prefetch(s + i + ahead);
      step(z + i, s + i, e + i, y + i, p == nullptr ? p : p + i, teacher, student, plain);
    }
    sums all{teacher.sum(), student.sum(), plain.sum()};
    if (i == n) return all;
    rest few_teacher = rest::Zero(n - i), few_student = few_teacher, few_plain = few_teacher;
    step(z + i, s + i, e + i, y + i, p == nullptr ? p : p + i, few_teacher, few_student, few_plain);
    all.teacher += few_teacher.sum();
    all.student += few_student.sum();
    all.plain += few_plain.sum();
    return all;
  }

 private:
  template <class Lanes>
  void step(T const* z, T const* s, T* e, T* y, T* p, Lanes& teacher, Lanes& student, Lanes& plain) const {
    using in = Eigen::Map<Lanes const>;
    using out = Eigen::Map<Lanes>;
    index_t const n = teacher.size();
    Lanes const by_teacher = ((in(z, n) - teacher_top) * cool).exp();
    Lanes const by_student = ((in(s, n) - student_top) * cool).exp();
    teacher += by_teacher;
    student += by_student;
    out(e, n) = by_teacher;
    out(y, n) = by_student;
    if (p == nullptr) return;
    Lanes const at_one = (in(s, n) - student_top).exp();
    plain += at_one;
    out(p, n) = at_one;
  }
};

}  // namespace accrete::inline v0::cpu::detail
