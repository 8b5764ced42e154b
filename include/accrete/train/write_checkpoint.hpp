#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "accrete/core/view.hpp"
#include "accrete/io/safetensors.hpp"
#include "accrete/io/safetensors_writer.hpp"
#include "accrete/train/checkpoint_tensors.hpp"
#include "accrete/train/run_facts.hpp"
#include "accrete/train/run_state.hpp"

namespace accrete::inline v0::train {

namespace detail {

template <std::size_t N>
std::string joined(std::array<char const*, N> const& names) {
  std::string text;
  for (char const* name : names) text += (text.empty() ? "" : " ") + std::string(name);
  return text;
}

}  // namespace detail

/// Writes where a run stands as one safetensors file, whole or not at all: weights under Hugging Face's names,
/// their moments as NAME.exp_avg and NAME.exp_avg_sq, the records as rows of doubles, and in the metadata, as
/// JSON, the run's facts, its place in plan and text, and how often each parameter was updated. Needs no memory
/// to speak of. Throws io_error; then what was at `path` stays.
template <backend B>
void write_checkpoint(std::filesystem::path const& path, run_facts const& facts, run_state const& s,
                      parameter_list<B> const& parameters) {
  std::vector<step_row> steps;
  for (auto const& r : s.result.steps) steps.push_back(to_row(r));
  std::vector<evaluation_row> evaluations;
  for (auto const& r : s.result.evaluations) evaluations.push_back(to_row(r));
  std::vector<io::safetensors_tensor> tensors;
  auto const add_rows = [&]<std::size_t N>(char const* name, std::vector<std::array<double, N>> const& rows) {
    tensors.push_back(
        {name, io::safetensors_dtype::f64, {index_t(rows.size()), index_t(N)}, std::as_bytes(std::span(rows))});
  };
  add_rows(detail::steps_tensor, steps);
  add_rows(detail::evaluations_tensor, evaluations);
  auto updates = nlohmann::ordered_json::object();
  for (auto const* p : parameters) {
    detail::append_tensors(tensors, *p);
    if (p->trainable()) updates[p->name()] = p->updates;
  }
  std::sort(tensors.begin(), tensors.end(), [](auto const& a, auto const& b) { return a.name < b.name; });

  auto fact_text = nlohmann::ordered_json::object();
  for (auto const& f : facts) fact_text[f.key] = f.value;
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
  std::map<std::string, std::string> metadata{{"format", detail::checkpoint_format},
                                              {"facts", fact_text.dump()},
                                              {"place", place.dump()},
                                              {"updates", updates.dump()},
                                              {detail::steps_tensor, detail::joined(step_columns)},
                                              {detail::evaluations_tensor, detail::joined(evaluation_columns)}};
  metadata["checksum"] = detail::checksum(metadata, tensors);

  io::safetensors_writer out(path);
  for (auto const& [key, value] : metadata) out.metadata(key, value);
  std::stable_sort(tensors.begin(), tensors.end(), [](auto const& a, auto const& b) {  // aligns all of them
    return io::layout_of(a.dtype).bits > io::layout_of(b.dtype).bits;
  });
  for (auto const& t : tensors) out.declare(t.name, t.dtype, t.shape);
  for (auto const& t : tensors)
    if (!t.bytes.empty()) out.append(t.name, t.bytes);
  out.commit();
}

}  // namespace accrete::inline v0::train
