#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "accrete/core/format.hpp"
#include "accrete/study/cell.hpp"
#include "accrete/study/statistics.hpp"
#include "accrete/study/table.hpp"

namespace accrete::inline v0::study {

/// All finished cells of a study, asked by placement, schedule and phase. Placements and schedules keep the
/// order in which they first appear; the first of each is what others are compared with.
class results {
 public:
  void add(cell c) {
    note(placements_, c.placement);
    note(schedules_, c.schedule);
    if (std::find(seeds_.begin(), seeds_.end(), c.seed) == seeds_.end()) seeds_.push_back(c.seed);
    cells_.push_back(std::move(c));
  }
  [[nodiscard]] std::vector<cell> const& cells() const { return cells_; }
  [[nodiscard]] std::vector<std::string> const& placements() const { return placements_; }
  [[nodiscard]] std::vector<std::string> const& schedules() const { return schedules_; }
  [[nodiscard]] std::vector<std::uint64_t> const& seeds() const { return seeds_; }
  [[nodiscard]] bool has(std::string const& schedule) const {
    return std::find(schedules_.begin(), schedules_.end(), schedule) != schedules_.end();
  }

  [[nodiscard]] cell const* find(std::string const& placement, std::string const& schedule,
                                 std::uint64_t seed) const {
    for (auto const& c : cells_)
      if (c.placement == placement && c.schedule == schedule && c.seed == seed) return &c;
    return nullptr;
  }
  /// That of any seed: what does not depend on it.
  [[nodiscard]] cell const* first(std::string const& placement, std::string const& schedule) const {
    for (auto const& c : cells_)
      if (c.placement == placement && c.schedule == schedule) return &c;
    return nullptr;
  }
  /// Validation CE at the end of phase p (-1: the last) for one seed.
  [[nodiscard]] std::optional<double> ce(std::string const& placement, std::string const& schedule,
                                         std::uint64_t seed, int p = -1) const {
    auto const* c = find(placement, schedule, seed);
    auto const* e = c != nullptr ? c->end_of_phase(p) : nullptr;
    return e != nullptr ? std::optional(e->ce) : std::nullopt;
  }
  /// An estimate over the seeds for which `value(seed)` exists: differences are taken seed by seed.
  template <class Value>
  [[nodiscard]] estimate over_seeds(Value&& value) const {
    std::vector<double> values;
    for (auto seed : seeds_)
      if (std::optional<double> const v = value(seed)) values.push_back(*v);
    return estimate_of(values);
  }
  /// Delta = CE(placement) - CE(first placement) under one schedule.
  [[nodiscard]] std::optional<double> delta(std::string const& placement, std::string const& schedule,
                                            std::uint64_t seed) const {
    auto const a = ce(placement, schedule, seed);
    auto const b = ce(placements_.front(), schedule, seed);
    return a && b ? std::optional(*a - *b) : std::nullopt;
  }
  /// Interaction = Delta(schedule) - Delta(first schedule).
  [[nodiscard]] std::optional<double> interaction(std::string const& placement, std::string const& schedule,
                                                  std::uint64_t seed) const {
    auto const a = delta(placement, schedule, seed);
    auto const b = delta(placement, schedules_.front(), seed);
    return a && b ? std::optional(*a - *b) : std::nullopt;
  }

 private:
  static void note(std::vector<std::string>& names, std::string const& name) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  std::vector<cell> cells_;
  std::vector<std::string> placements_, schedules_;
  std::vector<std::uint64_t> seeds_;
};

/// T1: final validation CE of every placement under every schedule, differences from the first placement, and
/// the interaction: how much of a difference the schedule makes.
inline table final_ce_table(results const& r) {
  table t{"T1", "T1  Final validation cross-entropy, nats per token", {""}, {}, {}};
  for (auto const& s : r.schedules()) t.header.push_back(s);
  auto row = [&](std::string const& name, auto&& value, bool sign) {
    std::vector<std::string> fields{name};
    for (auto const& s : r.schedules())
      fields.push_back(text_of(r.over_seeds([&](std::uint64_t seed) { return value(s, seed); }), sign));
    t.rows.push_back(std::move(fields));
  };
  for (auto const& p : r.placements())
    row(
        p, [&](auto const& s, auto seed) { return r.ce(p, s, seed); }, false);
  if (r.placements().empty()) return t;
  auto const& base = r.placements().front();
  for (std::size_t i = 1; i < r.placements().size(); ++i) {
    auto const& p = r.placements()[i];
    row(
        p + " - " + base, [&](auto const& s, auto seed) { return r.delta(p, s, seed); }, true);
  }
  for (std::size_t i = 1; i < r.placements().size(); ++i) {
    auto const& p = r.placements()[i];
    for (std::size_t k = 1; k < r.schedules().size(); ++k) {
      auto const& s = r.schedules()[k];
      auto const e = r.over_seeds([&](std::uint64_t seed) { return r.interaction(p, s, seed); });
      t.notes.push_back(fmt::format("interaction ({} - {}, {} - {}): {}", p, base, s, r.schedules().front(),
                                    text_of(e, true)));
    }
  }
  return t;
}

/// F3b: validation CE at the end of each phase of the schedules that have several.
inline table phase_table(results const& r) {
  table t{"F3b", "F3b  Validation cross-entropy at the end of each phase", {"placement", "schedule"}, {}, {},
          2};
  int phases = 0;
  for (auto const& c : r.cells())
    if (c.num_phases() > 1) phases = (std::max)(phases, c.num_phases());
  for (int p = 0; p < phases; ++p) t.header.push_back("phase " + std::to_string(p));
  for (auto const& s : r.schedules())
    for (auto const& p : r.placements()) {
      auto const* c = r.first(p, s);
      if (c == nullptr || c->num_phases() < 2) continue;
      std::vector<std::string> fields{p, s};
      for (int i = 0; i < phases; ++i)
        fields.push_back(text_of(r.over_seeds([&](std::uint64_t seed) { return r.ce(p, s, seed, i); })));
      t.rows.push_back(std::move(fields));
    }
  return t;
}

/// T2: the first phase of the grown schedule alone: one block.
inline table single_block_table(results const& r, std::string const& grown) {
  table t{"T2",
          "T2  One block alone (end of phase 0 of " + grown + ")",
          {"placement", "CE", "KD", "perplexity"},
          {},
          {}};
  for (auto const& p : r.placements()) {
    auto mean_of = [&](auto&& of) {
      return r.over_seeds([&](std::uint64_t seed) -> std::optional<double> {
        auto const* c = r.find(p, grown, seed);
        auto const* e = c != nullptr ? c->end_of_phase(0) : nullptr;
        return e != nullptr ? std::optional<double>(of(*e)) : std::nullopt;
      });
    };
    auto const perplexity = mean_of([](auto const& e) { return std::exp(e.ce); });
    t.rows.push_back({p, text_of(mean_of([](auto const& e) { return e.ce; })),
                      text_of(mean_of([](auto const& e) { return e.kd; })),
                      perplexity.count == 0 ? "-" : rough_text(perplexity.mean)});
  }
  return t;
}

inline std::string count_text(double n) {
  if (n >= 1e9) return fmt::format("{:.2f}B", n * 1e-9);
  if (n >= 1e6) return fmt::format("{:.2f}M", n * 1e-6);
  if (n >= 1e3) return fmt::format("{:.1f}k", n * 1e-3);
  return fmt::format("{:.0f}", n);
}

/// Which runs were given the same as the grown one, by what was counted: within a hundredth.
inline std::vector<std::string> matched_budgets(results const& r) {
  std::vector<std::string> notes;
  if (r.placements().empty() || !r.has("grow")) return notes;
  auto last = [&](std::string const& schedule) -> train::evaluation_record const* {
    auto const* c = r.first(r.placements().front(), schedule);
    return c != nullptr ? c->end_of_phase() : nullptr;
  };
  auto const* grown = last("grow");
  auto same = [](double a, double b) { return std::abs(a - b) <= 0.01 * b; };
  for (auto const& s : r.schedules()) {
    auto const* e = last(s);
    if (s == "grow" || s.starts_with("freeze") || e == nullptr || grown == nullptr) continue;
    if (same(e->tokens.active_layer, grown->tokens.active_layer))
      notes.push_back(s + " is matched with grow on active-layer tokens");
    if (same(double(e->tokens.total), double(grown->tokens.total)))
      notes.push_back(s + " is matched with grow on total tokens");
  }
  return notes;
}

/// T3 and the accounting: what each run was given, in three ways of counting, and what it reached.
inline table budget_table(results const& r) {
  table t{
      "T3",
      "T3  Budgets: what each run was given and what it reached",
      {"placement", "schedule", "updates", "unique tokens", "total tokens", "active-layer tokens", "final CE"},
      {},
      {},
      2};
  for (auto const& p : r.placements())
    for (auto const& s : r.schedules()) {
      auto const* c = r.first(p, s);
      auto const* e = c != nullptr ? c->end_of_phase() : nullptr;
      if (e == nullptr) continue;
      t.rows.push_back({p, s, std::to_string(e->step), count_text(double(e->tokens.unique)),
                        count_text(double(e->tokens.total)), count_text(e->tokens.active_layer),
                        text_of(r.over_seeds([&](std::uint64_t seed) { return r.ce(p, s, seed); }))});
    }
  t.notes.push_back("active-layer tokens: sum over updates of tokens x active layers");
  for (auto const& note : matched_budgets(r)) t.notes.push_back(note);
  return t;
}

/// Every table these results can fill.
inline std::vector<table> all_tables(results const& r) {
  std::vector<table> tables{final_ce_table(r)};
  if (auto t = phase_table(r); !t.rows.empty()) tables.push_back(std::move(t));
  if (r.has("grow")) tables.push_back(single_block_table(r, "grow"));
  tables.push_back(budget_table(r));
  return tables;
}

}  // namespace accrete::inline v0::study
