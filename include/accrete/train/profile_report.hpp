#pragma once
#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "accrete/backend/profile.hpp"
#include "accrete/core/format.hpp"
#include "accrete/io/atomic_file.hpp"

namespace accrete::inline v0::train {

/// What all calls of one operation, or all stretches of one name, come to.
struct profile_row {
  std::string name;
  std::size_t calls = 0;
  double seconds = 0, operations = 0, bytes = 0;
};

/// By name, the dearest first: operations, or stretches of them.
inline std::vector<profile_row> profile_rows(profile const& p, bool stretches) {
  std::map<std::string_view, profile_row> by_name;
  for (auto const& e : p.events()) {
    if (e.whole != stretches) continue;
    auto& row = by_name[e.name];
    row.name = e.name;
    ++row.calls;
    row.seconds += e.end - e.begin;
    row.operations += e.operations;
    row.bytes += e.bytes;
  }
  std::vector<profile_row> rows;
  for (auto& [name, row] : by_name) rows.push_back(std::move(row));
  std::sort(rows.begin(), rows.end(), [](auto const& a, auto const& b) { return a.seconds > b.seconds; });
  return rows;
}

/// A table for people: operations with their share of the time from the first to the last, calls and rates; what
/// is between them; then the stretches, which hold them.
inline std::string profile_table(profile const& p) {
  if (p.events().empty()) return "no operation was noted\n";
  double const seconds = p.seconds();
  std::string text = fmt::format("{:<24} {:>7} {:>9} {:>8} {:>9} {:>8}\n", "operation", "share", "seconds", "calls",
                                 "GFLOP/s", "GB/s");
  double noted = 0;
  auto const add = [&](profile_row const& r) {
    auto const rate = [&](double count) {
      return count > 0 && r.seconds > 0 ? fmt::format("{:.1f}", count / r.seconds * 1e-9) : std::string("-");
    };
    text += fmt::format("{:<24} {:>6.1f}% {:>9.3f} {:>8} {:>9} {:>8}\n", r.name, 100 * r.seconds / seconds, r.seconds,
                        r.calls, rate(r.operations), rate(r.bytes));
  };
  for (auto const& r : profile_rows(p, false)) {
    add(r);
    noted += r.seconds;
  }
  text += fmt::format("{:<24} {:>6.1f}% {:>9.3f}\n\n", "between operations", 100 * (seconds - noted) / seconds,
                      seconds - noted);
  for (auto const& r : profile_rows(p, true)) add(r);
  if (p.dropped() > 0) text += fmt::format("{} operations past the profile's room are not in it\n", p.dropped());
  return text;
}

/// Writes the events as a JSON file that chrome://tracing and ui.perfetto.dev open: one line of stretches, one of
/// operations below. Throws io_error.
inline void write_trace(profile const& p, std::filesystem::path const& path) {
  auto events = nlohmann::ordered_json::array();
  for (auto const& [line, name] : {std::pair{0, "stretches"}, std::pair{1, "operations"}})
    events.push_back({{"name", "thread_name"}, {"ph", "M"}, {"pid", 1}, {"tid", line}, {"args", {{"name", name}}}});
  for (auto const& e : p.events()) {
    double const seconds = e.end - e.begin;
    nlohmann::ordered_json one{{"name", e.name}, {"ph", "X"},         {"pid", 1}, {"tid", e.whole ? 0 : 1},
                               {"ts", e.begin * 1e6}, {"dur", seconds * 1e6}};
    if (e.operations > 0) one["args"]["GFLOP/s"] = e.operations / seconds * 1e-9;
    if (e.bytes > 0) one["args"]["GB/s"] = e.bytes / seconds * 1e-9;
    events.push_back(std::move(one));
  }
  io::write_atomically(path, nlohmann::ordered_json{{"displayTimeUnit", "ms"}, {"traceEvents", events}}.dump());
}

}  // namespace accrete::inline v0::train
