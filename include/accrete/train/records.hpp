#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "accrete/core/view.hpp"
#include "accrete/distill/vocabulary_head.hpp"

namespace accrete::inline v0::train {

/// One update. Losses are means over target tokens; `loss` = alpha kd + gamma ce.
struct step_record {
  int phase = 0;
  index_t step = 0;        ///< of the run, from 1
  index_t phase_step = 0;  ///< of the phase, from 1
  int active_layers = 0;
  index_t tokens = 0;
  index_t targets = 0;
  double loss = 0;
  double kd = 0;  ///< tau^2 KL(teacher || student)
  double ce = 0;
  double learning_rate = 0;
  double gradient_norm = 0;
  double clip_scale = 1;
  double seconds = 0;
  double operations = 0;  ///< floating-point, useful ones only
  bool skipped = false;   ///< loss or gradient was not finite: nothing was updated, no token counted
};

/// Where a run stands in text: the study's three ways to count it.
struct token_counts {
  index_t total = 0;        ///< over all updates
  index_t unique = 0;       ///< in the first pass over the shard
  double active_layer = 0;  ///< sum over updates of tokens x active layers
};

struct evaluation_record {
  int phase = 0;
  index_t step = 0;  ///< updates done
  bool end_of_phase = false;
  int active_layers = 0;
  double kd = 0;
  double ce = 0;
  index_t targets = 0;
  token_counts tokens;
};

/// What a run leaves in memory: enough for every table and curve.
struct run_result {
  std::string student;
  std::uint64_t seed = 0;
  std::vector<step_record> steps;
  std::vector<evaluation_record> evaluations;
  index_t skipped = 0;    ///< updates whose loss or gradient was not finite
  double seconds = 0;     ///< over all attempts
  bool finished = false;  ///< false: stopped after a step by request
};

}  // namespace accrete::inline v0::train
