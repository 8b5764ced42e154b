#pragma once
#include <algorithm>
#include <cmath>

#include "accrete/backend/arguments.hpp"
#include "accrete/backend/check.hpp"
#include "accrete/backend/types.hpp"
#include "accrete/cpu/array.hpp"
#include "accrete/cpu/context.hpp"
#include "accrete/cpu/parallel.hpp"

namespace accrete::inline v0::cpu {

/// The sum of in_i^2, in double and in an order that does not hang on the threads; not finite if any element
/// isn't.
template <class T, class Gemm>
double sum_of_squares(backend<T, Gemm> const& ctx, args::in1<T> in) {
  check::that(in.contiguous(), "sum_of_squares", "a vector with gaps", "neighbouring elements");
  constexpr index_t block = 8192;
  index_t const blocks = (in.rows() + block - 1) / block;
  double* const partial = ctx.template scratch<double>(blocks);
  for_ranges(ctx.threads(), blocks, block, [&](range r) {
    for (index_t b = r.first; b < r.last; ++b) {
      T const* const x = in.data + b * block;
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
/// Loshchilov & Hutter 2019. Throws shape_error, config_error.
template <class T, class Gemm>
void adamw(backend<T, Gemm> const& ctx, args::out1<T> parameter, args::in1<T> gradient, args::out1<T> first,
           args::out1<T> second, adamw_step step) {
  check::shape("adamw", "gradient", gradient, parameter.extents);
  check::shape("adamw", "first moment", first, parameter.extents);
  check::shape("adamw", "second moment", second, parameter.extents);
  check::that(parameter.contiguous() && gradient.contiguous() && first.contiguous() && second.contiguous(),
              "adamw", "a vector with gaps", "neighbouring elements");
  check::step("adamw", step);
  T const keep1 = T(step.beta1);
  T const take1 = T((1.0 - step.beta1) * step.gradient_scale);
  T const keep2 = T(step.beta2);
  T const take2 =
      T(std::sqrt(1.0 - step.beta2) * step.gradient_scale);  // squared, a clip of 1e-21 would be lost
  T const correction1 = T(1.0 / (1.0 - std::pow(step.beta1, double(step.step))));
  T const correction2 = T(1.0 / std::sqrt(1.0 - std::pow(step.beta2, double(step.step))));
  T const epsilon = T(step.epsilon);
  T const rate = T(step.learning_rate);
  T const decay = T(step.weight_decay);
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
    }
  });
}

}  // namespace accrete::inline v0::cpu
