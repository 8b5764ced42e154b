#pragma once
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "accrete/core/error.hpp"
#include "accrete/core/format.hpp"
#include "accrete/io/atomic_file.hpp"
#include "accrete/io/json.hpp"
#include "accrete/io/mapped_file.hpp"
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
  index_t skipped = 0;  ///< updates whose loss or gradient was not finite
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
                           {"skipped", c.skipped},
                           {"evaluations", nlohmann::ordered_json::array()}};
  for (auto const& e : c.evaluations) j["evaluations"].push_back(train::to_json(e));
  std::filesystem::create_directories(out / "cells");
  io::write_atomically(cell_path(out, c.settings), j.dump(1) + "\n");
}

/// The finished cell of these settings, if there is a whole one. A file that cannot be read counts as none: the
/// cell is then run again.
inline std::optional<cell> load(std::filesystem::path const& out, std::string const& settings) {
  auto const path = cell_path(out, settings);
  std::error_code failed;
  if (!std::filesystem::is_regular_file(path, failed)) return std::nullopt;
  try {
    io::mapped_file const file(path);
    std::string const where = "study::load '" + path.string() + "'";
    auto const j =
        io::json::parse({reinterpret_cast<char const*>(file.bytes().data()), file.bytes().size()}, where);
    auto const member = [&](io::json const& of, char const* name) -> io::json const& {
      auto const* found = of.find(name);
      if (found == nullptr) throw io_error(where, std::string("no ") + name, "it");
      return *found;
    };
    auto const count_of = [&](io::json const& of, char const* name) {
      auto const value = member(of, name).as_index(where);
      if (value > 1'000'000) throw io_error(where, std::to_string(value), "a small number");
      return int(value);
    };
    if (member(j, "settings").as_string(where) != settings) return std::nullopt;
    cell c;
    c.placement = member(j, "placement").as_string(where);
    c.schedule = member(j, "schedule").as_string(where);
    c.seed = member(j, "seed").as_unsigned(where);
    c.settings = settings;
    c.parameters = member(j, "parameters").as_index(where);
    c.trained_parameters = member(j, "trained_parameters").as_index(where);
    c.seconds = member(j, "seconds").as_double(where);
    if (j.find("skipped") != nullptr) c.skipped = member(j, "skipped").as_index(where);
    for (auto const& e : member(j, "evaluations").items()) {
      train::evaluation_record r;
      r.phase = count_of(e, "phase");
      r.step = member(e, "step").as_index(where);
      r.end_of_phase = member(e, "end_of_phase").as_bool(where);
      r.active_layers = count_of(e, "active_layers");
      r.kd = member(e, "kd").as_double(where);
      r.ce = member(e, "ce").as_double(where);
      r.targets = member(e, "targets").as_index(where);
      r.tokens = {member(e, "total_tokens").as_index(where), member(e, "unique_tokens").as_index(where),
                  member(e, "active_layer_tokens").as_double(where)};
      c.evaluations.push_back(r);
    }
    if (c.end_of_phase() == nullptr) return std::nullopt;
    return c;
  } catch (io_error const&) {
    return std::nullopt;
  }
}

}  // namespace accrete::inline v0::study
