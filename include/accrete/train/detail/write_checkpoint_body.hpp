#pragma once
#include <array>
#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "accrete/core/config.hpp"
#include "accrete/train/checkpoint_tensors.hpp"
#include "accrete/train/run_facts.hpp"
#include "accrete/train/run_state.hpp"
#include "accrete/train/write_checkpoint.hpp"

namespace accrete::inline v0::train::detail {

template <std::size_t N>
std::string joined(std::array<char const*, N> const& names) {
  std::string text;
  for (char const* name : names) text += (text.empty() ? "" : " ") + std::string(name);
  return text;
}

ACCRETE_INLINE std::map<std::string, std::string> checkpoint_metadata(
    run_facts const& facts, run_state const& s, std::vector<update_count> const& updates) {
  auto fact_text = nlohmann::ordered_json::object();
  for (auto const& f : facts) fact_text[f.key] = f.value;
  auto update_text = nlohmann::ordered_json::object();
  for (auto const& [name, count] : updates) update_text[name] = count;
  nlohmann::ordered_json const place{{"phase", s.phase},
                                     {"phase_step", s.phase_step},
                                     {"epoch", s.order.epoch},
                                     {"position", s.order.position},
                                     {"seen", s.seen},
                                     {"total_tokens", s.counts.total},
                                     {"unique_tokens", s.counts.unique},
                                     {"active_layer_tokens", s.counts.active_layer},
                                     {"skipped", s.result.skipped},
                                     {"seconds", s.result.seconds}};
  return {{"format", checkpoint_format},
          {"facts", fact_text.dump()},
          {"place", place.dump()},
          {"updates", update_text.dump()},
          {steps_tensor, joined(step_columns)},
          {evaluations_tensor, joined(evaluation_columns)}};
}

}  // namespace accrete::inline v0::train::detail
