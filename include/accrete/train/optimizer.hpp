#pragma once
#include <cmath>
#include <string>

#include "accrete/core/error.hpp"
#include "accrete/model/parameter.hpp"
#include "accrete/train/recipe.hpp"

namespace accrete::inline v0::train {

/// What an update did to the gradient.
struct update_report {
  double gradient_norm = 0;  ///< global, before clipping
  double clip_scale = 1;     ///< what the gradient was multiplied by
};

/// Global L2 norm of all gradients, in double. Throws numeric_error naming the first parameter whose gradient
/// is not finite, before any weight has moved.
template <class Model>
double gradient_norm(Model& m, index_t step) {
  double squares = 0;
  m.parameters([&](auto& p) {
    if (!p.trainable()) return;
    double const own = sum_of_squares(m.context(), p.gradient.view().flat());
    if (!std::isfinite(own))
      throw numeric_error("step " + std::to_string(step), "a gradient of " + p.name() + " that is not finite",
                          "finite numbers", "lower the learning rate, or look at the batch");
    squares += own;
  });
  return std::sqrt(squares);
}

/// One AdamW update of everything trainable, with the clip's factor folded in. Gradients are left as they are.
template <class Model>
update_report apply_adamw(Model& m, recipe const& r, double learning_rate, index_t step) {
  update_report report{gradient_norm(m, step), 1.0};
  if (report.gradient_norm > r.max_gradient_norm)
    report.clip_scale = r.max_gradient_norm / report.gradient_norm;
  m.parameters([&](auto& p) {
    if (!p.trainable()) return;
    bool const decays = !model::is_vector(p.role);
    adamw_step const update{learning_rate, r.beta1,          r.beta2, r.epsilon, decays ? r.weight_decay : 0.0,
                            ++p.updates,   report.clip_scale};
    adamw(m.context(), p.value.view().flat(), p.gradient.view().flat(), p.moment1.view().flat(),
          p.moment2.view().flat(), update, p.stored.view().flat());
  });
  return report;
}

template <class Model>
void zero_gradients(Model& m) {
  m.parameters([&](auto& p) {
    if (p.trainable()) zero(m.context(), p.gradient.view().flat());
  });
}

/// Moments and step counts as if nothing had been trained yet.
template <class Model>
void reset_optimizer(Model& m) {
  m.parameters([&](auto& p) {
    if (!p.trainable()) return;
    zero(m.context(), p.moment1.view().flat());
    zero(m.context(), p.moment2.view().flat());
    p.updates = 0;
  });
}

}  // namespace accrete::inline v0::train
