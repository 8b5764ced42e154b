#pragma once
#include <algorithm>
#include <Eigen/Core>

#include "accrete/core/view.hpp"
#include "accrete/cpu/lanes.hpp"

namespace accrete::inline v0::cpu::detail {

/// The largest of `n` logits and `least`. Whether NaN passes by is open: it shows in the sum of exponentials.
template <class T, class Z>
T largest(Z const* z, index_t n, T least) {
  lanes_of<T> top = lanes_of<T>::Constant(lane_count, least);
  index_t i = 0;
  for (; i + lane_count <= n; i += lane_count) top = (load_lanes<lanes_of<T>>(z + i, lane_count).max)(top);
  T all = top.maxCoeff();
  for (; i < n; ++i) all = (std::max)(all, T(z[i]));
  return all;
}

/// exp((x - top) / temperature) of logits, and the sums of them.
template <class T>
struct exponentials {
  T teacher_top, student_top, cool;  ///< what logits are relative to; 1 / temperature

  struct sums {
    T teacher = 0, student = 0;
    T plain = 0;  ///< the student's at temperature 1
    T gap = 0;    ///< the teacher's, each times what its logit is above the student's
  };

  /// z, s [n] logits of teacher and student -> e, y [n] their exponentials, p [n] the student's at temperature
  /// 1, unless null. In one pass, where Eigen's expressions would take one for each line. Both sides are summed
  /// in the same order: where they are equal, their errors are too, and cancel.
  template <class Z>
  sums take(Z const* z, Z const* s, index_t n, T* e, T* y, T* p) const {
    constexpr index_t ahead = 1024;  // numbers: memory is asked for what follows while this is computed
    running<lanes_of<T>> sum(lane_count);
    index_t i = 0;
    for (; i + lane_count <= n; i += lane_count) {
      __builtin_prefetch(z + i + ahead);
      __builtin_prefetch(s + i + ahead);
      step(z + i, s + i, e + i, y + i, p == nullptr ? p : p + i, lane_count, sum);
    }
    sums all = sum.total();
    if (i == n) return all;
    running<few_lanes<T>> rest(n - i);
    step(z + i, s + i, e + i, y + i, p == nullptr ? p : p + i, n - i, rest);
    sums const few = rest.total();
    return {all.teacher + few.teacher, all.student + few.student, all.plain + few.plain, all.gap + few.gap};
  }

 private:
  template <class Lanes>
  struct running {
    Lanes teacher, student, plain, gap;
    explicit running(index_t n) : teacher(Lanes::Zero(n)), student(teacher), plain(teacher), gap(teacher) {}
    sums total() const { return {teacher.sum(), student.sum(), plain.sum(), gap.sum()}; }
  };

  template <class Lanes, class Z>
  void step(Z const* z, Z const* s, T* e, T* y, T* p, index_t n, running<Lanes>& sum) const {
    constexpr T excluded = T(-1e20);
    using out = Eigen::Map<Lanes>;
    Lanes const teacher = load_lanes<Lanes>(z, n), student = load_lanes<Lanes>(s, n);
    Lanes const by_teacher = ((teacher - teacher_top) * cool).exp();
    Lanes const by_student = ((student - student_top) * cool).exp();
    // An entry that the teacher excludes (-inf) has no share in the divergence, whatever the student says. What
    // is subtracted first and chosen after can be vectorized.
    index_t const count = Lanes::SizeAtCompileTime == lane_count ? lane_count : n;
    Lanes const gap = teacher - student;
    T const* const from = gap.data();
    T const* const weight = by_teacher.data();
    T* const to = sum.gap.data();
#pragma omp simd
    for (index_t j = 0; j < count; ++j) to[j] += weight[j] * (from[j] > excluded ? from[j] : T(0));
    sum.teacher += by_teacher;
    sum.student += by_student;
    out(e, n) = by_teacher;
    out(y, n) = by_student;
    if (p == nullptr) return;
    Lanes const at_one = (student - student_top).exp();
    sum.plain += at_one;
    out(p, n) = at_one;
  }
};

}  // namespace accrete::inline v0::cpu::detail
