#pragma once
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "accrete/train/records.hpp"

namespace accrete::inline v0::train {

/// One JSON object on one line for each update and evaluation: log.jsonl.
inline nlohmann::ordered_json to_json(step_record const& r) {
  nlohmann::ordered_json line{{"kind", "step"},
                              {"phase", r.phase},
                              {"step", r.step},
                              {"phase_step", r.phase_step},
                              {"active_layers", r.active_layers},
                              {"tokens", r.tokens},
                              {"targets", r.targets},
                              {"loss", r.loss},
                              {"kd", r.kd},
                              {"ce", r.ce},
                              {"learning_rate", r.learning_rate},
                              {"gradient_norm", r.gradient_norm},
                              {"clip_scale", r.clip_scale},
                              {"seconds", r.seconds},
                              {"operations", r.operations}};
  if (r.skipped) line["skipped"] = true;
  return line;
}
inline nlohmann::ordered_json to_json(evaluation_record const& r) {
  return {{"kind", "evaluation"},
          {"phase", r.phase},
          {"step", r.step},
          {"end_of_phase", r.end_of_phase},
          {"active_layers", r.active_layers},
          {"kd", r.kd},
          {"ce", r.ce},
          {"perplexity", std::exp(r.ce)},
          {"targets", r.targets},
          {"total_tokens", r.tokens.total},
          {"unique_tokens", r.tokens.unique},
          {"active_layer_tokens", r.tokens.active_layer}};
}
}  // namespace accrete::inline v0::train
