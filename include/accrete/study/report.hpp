#pragma once
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "accrete/core/format.hpp"
#include "accrete/io/atomic_file.hpp"
#include "accrete/study/tables.hpp"

namespace accrete::inline v0::study {

/// What a report says besides its tables: facts in order, name and value.
struct report_facts {
  std::vector<std::pair<std::string, std::string>> facts;
  std::vector<std::pair<std::string, std::string>> equations;  ///< placement and what its layer computes
  index_t steps = 0;  ///< updates in a unit: a short run is called a demonstration
};

/// The processor as the system names it.
inline std::string processor_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "unknown processor";
}

/// What the numbers are worth, a sentence an element.
inline std::vector<std::string> standing(report_facts const& f, std::size_t seeds) {
  std::vector<std::string> sentences;
  if (f.steps < 2000)
    sentences.push_back(
        fmt::format("A demonstration: {} updates in a phase, where the paper has 50,000.", f.steps));
  if (seeds < 2)
    sentences.push_back("One seed: two decimals, and no claim about differences of that order.");
  else
    sentences.push_back(fmt::format("{} seeds: mean ± half-width of the 95% interval (Student's t).", seeds));
  if (seeds > 1) sentences.push_back("Differences are paired by seed.");
  return sentences;
}

/// The cells that passed updates over: their numbers are of a run that was not as planned.
inline std::vector<std::string> what_was_skipped(results const& r) {
  std::vector<std::string> sentences;
  for (auto const& c : r.cells())
    if (c.skipped > 0)
      sentences.push_back(fmt::format(
          "{}, {}, seed {}: {} skipped, whose loss or gradient was not finite.", c.placement, c.schedule,
          c.seed, c.skipped == 1 ? "one update was" : fmt::format("{} updates were", c.skipped)));
  return sentences;
}

/// table.csv: one row a cell and phase, in full precision, for plotting and further statistics.
inline std::string to_csv(results const& r) {
  std::string text =
      "placement,schedule,seed,phase,active_layers,updates,ce,kd,targets,unique_tokens,total_tokens,active_"
      "layer_tokens,"
      "seconds\n";
  auto quoted = [](std::string const& s) { return s.find(',') == std::string::npos ? s : "\"" + s + "\""; };
  for (auto const& c : r.cells())
    for (auto const& e : c.evaluations)
      if (e.end_of_phase)
        text += fmt::format("{},{},{},{},{},{},{:.6f},{:.6f},{},{},{},{:.0f},{:.1f}\n", quoted(c.placement),
                            quoted(c.schedule), c.seed, e.phase, e.active_layers, e.step, e.ce, e.kd, e.targets,
                            e.tokens.unique, e.tokens.total, e.tokens.active_layer, c.seconds);
  return text;
}

inline std::string to_markdown(results const& r, report_facts const& f) {
  std::string text = "# Normalization placement and growth in depth\n\n";
  for (auto const& sentence : standing(f, r.seeds().size())) text += sentence + "\n";
  for (auto const& sentence : what_was_skipped(r)) text += sentence + "\n";
  text += "\n";
  for (auto const& t : all_tables(r)) text += to_markdown(t);
  text += "### Equations\n\n| placement | layer | parameters |\n|---|---|---:|\n";
  for (auto const& [name, equation] : f.equations) {
    std::int64_t parameters = 0;
    for (auto const& c : r.cells())
      if (c.placement == name) parameters = c.parameters;
    text += "| " + name + " | `" + equation + "` | " + count_text(double(parameters)) + " |\n";
  }
  text += "\n### How\n\n| | |\n|---|---|\n";
  for (auto const& [name, value] : f.facts) text += "| " + name + " | " + field_text(value) + " |\n";
  text +=
      "\n### Definitions\n\n"
      "- Cross-entropy (CE) and KD are means over all target tokens of the held-out documents; KD = tau^2 "
      "KL(teacher || "
      "student). Perplexity is exp(CE).\n"
      "- Delta = CE(placement) - CE(first placement) under one schedule. Interaction = Delta(schedule) - "
      "Delta(first "
      "schedule).\n"
      "- Unique tokens: of the first pass over the shard. Total tokens: over all updates. Active-layer tokens: "
      "sum over "
      "updates of tokens x active layers.\n"
      "- Parameters include the head and the norms, not the frozen embedding, which is the teacher's.\n";
  return text;
}

/// Writes table.csv and report.md below `out`, each whole.
inline void write_report(results const& r, report_facts const& f, std::filesystem::path const& out) {
  io::write_atomically(out / "table.csv", to_csv(r));
  io::write_atomically(out / "report.md", to_markdown(r, f));
}

}  // namespace accrete::inline v0::study
