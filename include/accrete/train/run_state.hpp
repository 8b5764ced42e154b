#pragma once
#include <array>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "accrete/core/error.hpp"
#include "accrete/data/document_order.hpp"
#include "accrete/train/records.hpp"

namespace accrete::inline v0::train {

/// Where a run stands between two updates: with weights, moments and the seed, all that the next one follows
/// from.
struct run_state {
  int phase = 0;
  index_t phase_step = 0;   ///< updates of the phase that are done
  data::order_state order;  ///< of the text
  index_t seen = 0;         ///< documents of the shard that the first pass has reached
  token_counts counts;
  run_result result;  ///< so far

  /// Updates of the run that are done, skipped ones included.
  [[nodiscard]] index_t step() const { return result.steps.empty() ? 0 : result.steps.back().step; }
  /// Whether the evaluation that belongs to this place has been made.
  [[nodiscard]] bool evaluated() const {
    return !result.evaluations.empty() && result.evaluations.back().step == step() &&
           result.evaluations.back().phase == phase;
  }
};

/// Records as rows of numbers, for files: whole numbers below 2^53 are doubles without loss.
inline constexpr std::array<char const*, 15> step_columns{
    "phase", "step",          "phase_step",    "active_layers", "tokens",  "targets",    "loss",   "kd",
    "ce",    "learning_rate", "gradient_norm", "clip_scale",    "seconds", "operations", "skipped"};
inline constexpr std::array<char const*, 10> evaluation_columns{
    "phase", "step",    "end_of_phase", "active_layers", "kd",
    "ce",    "targets", "total_tokens", "unique_tokens", "active_layer_tokens"};
using step_row = std::array<double, step_columns.size()>;
using evaluation_row = std::array<double, evaluation_columns.size()>;

inline step_row to_row(step_record const& r) {
  return {double(r.phase),
          double(r.step),
          double(r.phase_step),
          double(r.active_layers),
          double(r.tokens),
          double(r.targets),
          r.loss,
          r.kd,
          r.ce,
          r.learning_rate,
          r.gradient_norm,
          r.clip_scale,
          r.seconds,
          r.operations,
          double(r.skipped)};
}
inline evaluation_row to_row(evaluation_record const& r) {
  return {
      double(r.phase),   double(r.step),         double(r.end_of_phase),  double(r.active_layers), r.kd, r.ce,
      double(r.targets), double(r.tokens.total), double(r.tokens.unique), r.tokens.active_layer};
}

/// A row's number that counts something; throws io_error beginning with `where` if it is none below `most`.
inline index_t count_in(double value, char const* column, std::string const& where, double most = 0x1p53) {
  if (!(value >= 0 && value < most && value == std::floor(value)))
    throw io_error(where, std::string(column) + " " + std::to_string(value), "a whole number");
  return index_t(value);
}
inline step_record step_from(step_row const& v, std::string const& where) {
  auto const whole = [&](std::size_t i) { return count_in(v[i], step_columns[i], where); };
  auto const narrow = [&](std::size_t i) { return int(count_in(v[i], step_columns[i], where, 0x1p31)); };
  return {narrow(0), whole(1), whole(2), narrow(3), whole(4), whole(5), v[6],          v[7],
          v[8],      v[9],     v[10],    v[11],     v[12],    v[13],    whole(14) != 0};
}
inline evaluation_record evaluation_from(evaluation_row const& v, std::string const& where) {
  auto const whole = [&](std::size_t i) { return count_in(v[i], evaluation_columns[i], where); };
  auto const narrow = [&](std::size_t i) { return int(count_in(v[i], evaluation_columns[i], where, 0x1p31)); };
  return {narrow(0), whole(1), whole(2) != 0, narrow(3), v[4], v[5], whole(6), {whole(7), whole(8), v[9]}};
}

}  // namespace accrete::inline v0::train
