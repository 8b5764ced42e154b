#pragma once
#include <cstdint>

#include "accrete/core/target.hpp"
#include "accrete/core/view.hpp"

namespace accrete::inline v0 {

/// Whether an operation replaces what its output holds, or adds to it.
enum class store { replace, add };

/// Rotation by +angle, or back.
enum class rotation { forward, inverse };

/// Grouped-query attention: query head h reads key/value head h / (heads / kv_heads).
struct attention_shape {
  index_t heads = 0;
  index_t kv_heads = 0;
  index_t head_dim = 0;
  double scale = 1.0;  ///< on the scores, usually head_dim^-0.5
};

/// L = alpha tau^2 KL(teacher^tau || student^tau) + gamma CE, each a sum over target tokens times `per_target`
/// (one over the number of target tokens of the whole global batch). Hinton et al. 2015; the study's Eq. for L.
struct distillation_weights {
  double temperature = 1.0;  ///< tau, divides both sets of logits in the KL term only
  double alpha = 0.7;
  double gamma = 0.3;
  double per_target = 1.0;
};

/// One AdamW update (Loshchilov & Hutter 2019), decoupled decay, epsilon outside the root.
struct adamw_step {
  double learning_rate = 0;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0;
  std::int64_t step = 1;        ///< counts updates of this state from 1: bias correction is 1 - beta^step
  double gradient_scale = 1.0;  ///< the clip's factor, applied to the gradient on the way
};

}  // namespace accrete::inline v0
