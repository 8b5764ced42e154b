#pragma once
#include <cmath>
#include <concepts>

#include "accrete/backend/arguments.hpp"
#include "accrete/backend/check.hpp"
#include "accrete/backend/types.hpp"
#include "accrete/reference/context.hpp"

namespace accrete::inline v0::reference {

/// In double, so that a norm past the range of float survives; not finite if any element is not.
template <std::floating_point T>
double sum_of_squares(backend<T> const&, args::in1<T> in) {
  double sum = 0;
  for (index_t i = 0; i < in.rows(); ++i) sum += double(in(i)) * double(in(i));
  return sum;
}

/// One update of parameter [n] by gradient [n] with its moments [n], and decay apart from them:
///   m = b1 m + (1 - b1) g,  v = b2 v + (1 - b2) g^2,
///   p = p - lr (weight_decay p + m / (1 - b1^step) / (sqrt(v / (1 - b2^step)) + eps)).
/// `stored` [n], unless empty, becomes the updated parameter too.
template <std::floating_point T>
void adamw(backend<T> const&, args::out1<T> parameter, args::in1<T> gradient, args::out1<T> first,
           args::out1<T> second, adamw_step step, args::out1<T> stored = {}) {
  check::shape("adamw", "gradient", gradient, parameter.extents);
  check::shape("adamw", "first moment", first, parameter.extents);
  check::shape("adamw", "second moment", second, parameter.extents);
  if (!stored.empty()) check::shape("adamw", "stored parameter", stored, parameter.extents);
  check::step("adamw", step);
  double const correction1 = 1.0 - std::pow(step.beta1, double(step.step));
  double const correction2 = 1.0 - std::pow(step.beta2, double(step.step));
  for (index_t i = 0; i < parameter.rows(); ++i) {
    double const g = step.gradient_scale * double(gradient(i));
    double const p = double(parameter(i));
    double const m = step.beta1 * double(first(i)) + (1.0 - step.beta1) * g;
    double const v = step.beta2 * double(second(i)) + (1.0 - step.beta2) * g * g;
    double const direction = m / correction1 / (std::sqrt(v / correction2) + step.epsilon);
    first(i) = static_cast<T>(m);
    second(i) = static_cast<T>(v);
    parameter(i) = static_cast<T>(p - step.learning_rate * (step.weight_decay * p + direction));
    if (!stored.empty()) stored(i) = parameter(i);
  }
}

}  // namespace accrete::inline v0::reference
