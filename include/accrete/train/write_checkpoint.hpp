#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "accrete/core/view.hpp"
#include "accrete/io/safetensors.hpp"
#include "accrete/io/safetensors_writer.hpp"
#include "accrete/train/checkpoint_tensors.hpp"
#include "accrete/train/run_facts.hpp"
#include "accrete/train/run_state.hpp"

namespace accrete::inline v0::train {

namespace detail {

/// How often a parameter was updated, by its name.
using update_count = std::pair<std::string, std::int64_t>;

/// What a checkpoint's metadata say, but for the checksum over them and all tensors.
std::map<std::string, std::string> checkpoint_metadata(run_facts const& facts, run_state const& s,
                                                       std::vector<update_count> const& updates);

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
  std::vector<detail::update_count> updates;
  for (auto const* p : parameters) {
    detail::append_tensors(tensors, *p);
    if (p->trainable()) updates.emplace_back(p->name(), p->updates);
  }
  std::sort(tensors.begin(), tensors.end(), [](auto const& a, auto const& b) { return a.name < b.name; });

  auto metadata = detail::checkpoint_metadata(facts, s, updates);
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

#if !defined(ACCRETE_COMPILED)
#include "accrete/train/detail/write_checkpoint_body.hpp"
#endif
