#pragma once
#include <fmt/format.h>

#include <cstdint>
#include <exception>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "accrete/core/error.hpp"
#include "accrete/io/atomic_file.hpp"
#include "accrete/train/log_lines.hpp"
#include "accrete/train/records.hpp"

namespace accrete::inline v0::study {

/// One finished run of the grid: a placement under a schedule from one seed.
struct cell {
  std::string placement;
  std::string schedule;
  std::uint64_t seed = 0;
  std::string settings;  ///< everything the numbers depend on, as text; its hash names the file
  std::int64_t parameters = 0;
  std::int64_t trained_parameters = 0;  ///< in the last phase
  double seconds = 0;
  std::vector<train::evaluation_record> evaluations;

  /// The evaluation at the end of phase p; -1: of the last one.
  [[nodiscard]] train::evaluation_record const* end_of_phase(int p = -1) const {
    train::evaluation_record const* found = nullptr;
    for (auto const& e : evaluations)
      if (e.end_of_phase && (p < 0 || e.phase == p)) found = &e;
    return found;
  }
  [[nodiscard]] int num_phases() const { return evaluations.empty() ? 0 : evaluations.back().phase + 1; }
};

/// Where a cell is kept below `out`: the same settings give the same name.
inline std::filesystem::path cell_path(std::filesystem::path const& out, std::string const& settings) {
  std::uint64_t h = 0xcbf29ce484222325ull;
  for (char c : settings) h = (h ^ std::uint64_t(static_cast<unsigned char>(c))) * 0x100000001b3ull;
  return out / "cells" / fmt::format("{:016x}.json", h);
}

inline void save(cell const& c, std::filesystem::path const& out) {
  nlohmann::ordered_json j{{"placement", c.placement},
                           {"schedule", c.schedule},
                           {"seed", c.seed},
                           {"settings", c.settings},
                           {"parameters", c.parameters},
                           {"trained_parameters", c.trained_parameters},
                           {"seconds", c.seconds},
                           {"evaluations", nlohmann::ordered_json::array()}};
  for (auto const& e : c.evaluations) j["evaluations"].push_back(train::to_json(e));
  std::filesystem::create_directories(out / "cells");
  io::write_atomically(cell_path(out, c.settings), j.dump(1) + "\n");
}

/// The finished cell of these settings, if there is a whole one. A file that cannot be read counts as none: the
/// cell is then run again.
inline std::optional<cell> load(std::filesystem::path const& out, std::string const& settings) {
  std::ifstream file(cell_path(out, settings));
  if (!file) return std::nullopt;
  try {
    auto const j = nlohmann::json::parse(file);
    if (j.at("settings") != settings) return std::nullopt;
    cell c;
    c.placement = j.at("placement");
    c.schedule = j.at("schedule");
    c.seed = j.at("seed");
    c.settings = settings;
    c.parameters = j.at("parameters");
    c.trained_parameters = j.at("trained_parameters");
    c.seconds = j.at("seconds");
    for (auto const& e : j.at("evaluations")) {
      train::evaluation_record r;
      r.phase = e.at("phase");
      r.step = e.at("step");
      r.end_of_phase = e.at("end_of_phase");
      r.active_layers = e.at("active_layers");
      r.kd = e.at("kd");
      r.ce = e.at("ce");
      r.targets = e.at("targets");
      r.tokens = {e.at("total_tokens"), e.at("unique_tokens"), e.at("active_layer_tokens")};
      c.evaluations.push_back(r);
    }
    return c;
  } catch (nlohmann::json::exception const&) {
    return std::nullopt;
  }
}

}  // namespace accrete::inline v0::study
