#pragma once
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <string>

#include "accrete/backend/types.hpp"
#include "accrete/core/error.hpp"
#include "accrete/core/rng.hpp"
#include "accrete/model/recomputation.hpp"

namespace accrete::inline v0 {

/// Everything of a run that is neither the student's type nor its text. The defaults are the study's, but for
/// its size: `steps`, `batch_tokens` and what follows from them.
struct recipe {
  index_t steps = 300;          ///< optimizer updates in one unit of the plan: a phase, in the study
  index_t batch_tokens = 2048;  ///< most tokens of an update; it takes whole documents up to that
  index_t micro_tokens = 0;     ///< most tokens in memory at once; gradients add up. 0: batch_tokens
  double peak_learning_rate = 1e-4;
  double min_learning_rate = 1e-6;
  double warmup =
      -1;  ///< fraction of a schedule's updates; < 0: 10% below 2,000 updates, else the paper's 1.5%
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0;  ///< on matrices and the head, never on gains
  double max_gradient_norm = 0.5;
  double temperature = 1.0;    ///< tau
  double alpha = 0.7;          ///< of tau^2 KL(teacher || student)
  double gamma = 0.3;          ///< of the cross-entropy
  index_t evaluate_every = 0;  ///< updates between evaluations, counted within a phase; 0: at the end of phases
  std::size_t logits_bytes = std::size_t(224) << 20;  ///< budget of a slice of both models' logits
  index_t skip_nonfinite = 0;  ///< updates of a run that may be passed over for a loss or gradient not finite
  recomputation recompute = recomputation::none;  ///< memory for time; the numbers stay the same
  accrete::seed seed{42};

  [[nodiscard]] distillation_weights weights(index_t targets) const {
    return {temperature, alpha, gamma, targets > 0 ? 1.0 / double(targets) : 0.0};
  }
  [[nodiscard]] index_t micro_capacity() const {
    return micro_tokens > 0 && micro_tokens < batch_tokens ? micro_tokens : batch_tokens;
  }

  /// Throws config_error that names the first value that cannot work.
  void check() const {
    auto refuse = [](char const* name, std::string const& got, char const* expected, char const* hint = "") {
      throw config_error(std::string("recipe.") + name, got, expected, hint);
    };
    auto number = [](double v) {  // std::to_string would print 1e-7 as 0.000000
      char text[32];
      std::snprintf(text, sizeof text, "%g", v);
      return std::string(text);
    };
    auto positive = [](double v) { return v > 0 && std::isfinite(v); };
    auto not_negative = [](double v) { return v >= 0 && std::isfinite(v); };
    if (steps < 1) refuse("steps", std::to_string(steps), "1 or more");
    if (batch_tokens < 2) refuse("batch_tokens", std::to_string(batch_tokens), "2 or more");
    if (micro_tokens < 0) refuse("micro_tokens", std::to_string(micro_tokens), "0 or more");
    if (!(peak_learning_rate > 0 && peak_learning_rate < 1e3))
      refuse("peak_learning_rate", number(peak_learning_rate), "above 0 and below 1000", "the paper's is 1e-4");
    if (!(min_learning_rate >= 0 && min_learning_rate <= peak_learning_rate))
      refuse("min_learning_rate", number(min_learning_rate), "0 or more and at most the peak");
    if (!(warmup <= 1)) refuse("warmup", number(warmup), "a fraction of the schedule, at most 1");
    if (!(beta1 >= 0 && beta1 < 1)) refuse("beta1", number(beta1), "0 <= beta1 < 1");
    if (!(beta2 >= 0 && beta2 < 1)) refuse("beta2", number(beta2), "0 <= beta2 < 1");
    if (!positive(epsilon)) refuse("epsilon", number(epsilon), "a positive number");
    if (!not_negative(weight_decay)) refuse("weight_decay", number(weight_decay), "0 or more");
    if (!(max_gradient_norm > 0))
      refuse("max_gradient_norm", number(max_gradient_norm), "a positive number",
             "a large one turns clipping off");
    if (!positive(temperature)) refuse("temperature", number(temperature), "a positive number");
    if (!not_negative(alpha)) refuse("alpha", number(alpha), "0 or more");
    if (!not_negative(gamma)) refuse("gamma", number(gamma), "0 or more");
    if (alpha == 0 && gamma == 0)
      refuse("alpha, gamma", "0 and 0", "one of them above 0", "nothing would be learned");
    if (evaluate_every < 0) refuse("evaluate_every", std::to_string(evaluate_every), "0 or more");
    if (skip_nonfinite < 0) refuse("skip_nonfinite", std::to_string(skip_nonfinite), "0 or more");
  }
  /// Itself, if check() lets it pass: for initializers.
  [[nodiscard]] recipe const& checked() const {
    check();
    return *this;
  }
};

}  // namespace accrete::inline v0
