#pragma once
#include <algorithm>
#include <cmath>

#include "accrete/backend/arguments.hpp"
#include "accrete/backend/check.hpp"
#include "accrete/backend/types.hpp"
#include "accrete/cpu/array.hpp"
#include "accrete/cpu/context.hpp"
#include "accrete/cpu/parallel.hpp"
#include "accrete/cpu/staging.hpp"

namespace accrete::inline v0::cpu {

/// The sum of in_i^2, in double and in an order that does not hang on the threads; not finite if any element
/// isn't.
template <class T, class Gemm>
double sum_of_squares(backend<T, Gemm> const& ctx, args::in1<computed_as<T>> in) {
  check::that(in.contiguous(), "sum_of_squares", "a vector with gaps", "neighbouring elements");
  auto const timing = ctx.timed("sum_of_squares", widths<T> * double(in.size()));
  constexpr index_t block = 8192;
  index_t const blocks = (in.rows() + block - 1) / block;
  double* const partial = ctx.template scratch<double>(blocks);
  for_ranges(ctx.threads(), blocks, block, [&](range r) {
    for (index_t b = r.first; b < r.last; ++b) {
      auto const* const x = in.data + b * block;
      index_t const n = (std::min)(block, in.rows() - b * block);
      double sum = 0;
#pragma omp simd reduction(+ : sum)
      for (index_t i = 0; i < n; ++i) sum += double(x[i]) * double(x[i]);
      partial[b] = sum;
    }
  });
  double total = 0;
  for (index_t b = 0; b < blocks; ++b) total += partial[b];
  return total;
}

/// One update of parameter [n] by gradient [n] with its moments [n], in one sweep:
///   g = gradient_scale * gradient, m = b1 m + (1 - b1) g, v = b2 v + (1 - b2) g^2,
///   p = p - lr (weight_decay p + m / (1 - b1^step) / (sqrt(v / (1 - b2^step)) + eps)).
/// `stored` [n], unless empty, becomes the parameter in the format that matrices are multiplied in. Loshchilov &
/// Hutter 2019. Throws shape_error, config_error.
template <class T, class Gemm>
void adamw(backend<T, Gemm> const& ctx, args::out1<computed_as<T>> parameter, args::in1<computed_as<T>> gradient,
           args::out1<computed_as<T>> first, args::out1<computed_as<T>> second, adamw_step step,
           args::out1<T> stored = {}) {
  using C = computed_as<T>;
  check::shape("adamw", "gradient", gradient, parameter.extents);
  check::shape("adamw", "first moment", first, parameter.extents);
  check::shape("adamw", "second moment", second, parameter.extents);
  check::that(parameter.contiguous() && gradient.contiguous() && first.contiguous() && second.contiguous(),
              "adamw", "a vector with gaps", "neighbouring elements");
  if (!stored.empty()) check::shape("adamw", "stored parameter", stored, parameter.extents);
  check::step("adamw", step);
  auto const timing =
      ctx.timed("adamw", 7.0 * widths<T> * double(parameter.size()) + double(stored.size()));
  C const keep1 = C(step.beta1);
  C const take1 = C((1.0 - step.beta1) * step.gradient_scale);
  C const keep2 = C(step.beta2);
  C const take2 =
      C(std::sqrt(1.0 - step.beta2) * step.gradient_scale);  // squared, a clip of 1e-21 would be lost
  C const correction1 = C(1.0 / (1.0 - std::pow(step.beta1, double(step.step))));
  C const correction2 = C(1.0 / std::sqrt(1.0 - std::pow(step.beta2, double(step.step))));
  C const epsilon = C(step.epsilon);
  C const rate = C(step.learning_rate);
  C const decay = C(step.weight_decay);
  constexpr index_t chunk = 1024;  // five streams of one chunk fit the first cache
  index_t const chunks = (parameter.rows() + chunk - 1) / chunk;
  for_ranges(ctx.threads(), chunks, chunk, [&](range r) {
    for (index_t c = r.first; c < r.last; ++c) {
      index_t const n = (std::min)(chunk, parameter.rows() - c * chunk);
      auto p = detail::array(parameter.data + c * chunk, n);
      auto const g = detail::array(gradient.data + c * chunk, n);
      auto m = detail::array(first.data + c * chunk, n);
      auto v = detail::array(second.data + c * chunk, n);
      m = keep1 * m + take1 * g;
      v = keep2 * v + (take2 * g).square();
      p -= rate * (decay * p + correction1 * m / (correction2 * v.sqrt() + epsilon));
      if (!stored.empty()) detail::convert(p.data(), n, stored.data + c * chunk);
    }
  });
}

}  // namespace accrete::inline v0::cpu
