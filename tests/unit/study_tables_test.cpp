#include "accrete/study/tables.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "accrete/study/report.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"

using namespace accrete;
using study::cell;
using study::results;
using study::table;

namespace {

/// One phase a value of `ce`, 100 updates each, layers three at a time.
cell cell_of(std::string const& placement, std::string const& schedule, std::vector<double> const& ce,
             std::uint64_t seed = 42) {
  cell c;
  c.placement = placement;
  c.schedule = schedule;
  c.seed = seed;
  c.settings = placement + schedule + std::to_string(seed);
  c.parameters = 1'234'567;
  c.seconds = 12.5;
  for (std::size_t p = 0; p < ce.size(); ++p) {
    train::evaluation_record middle{int(p), index_t(100 * p + 50), false, int(3 * p + 3), 9.0, 9.0, 77, {}};
    train::evaluation_record end{
        int(p), index_t(100 * (p + 1)), true, int(3 * p + 3), ce[p] + 0.03529, ce[p], index_t(77), {}};
    end.tokens = {index_t(51200 * (p + 1)), index_t(51200), 1.5e6 * double(p + 1)};
    c.evaluations.push_back(middle);
    c.evaluations.push_back(end);
  }
  return c;
}

/// The paper's T1 and T2; the phases between are made up.
results paper() {
  results r;
  r.add(cell_of("pre", "joint", {2.7603}));
  r.add(cell_of("pre", "grow", {2.9802, 2.85, 2.7658}));
  r.add(cell_of("post", "joint", {2.7607}));
  r.add(cell_of("post", "grow", {2.9846, 2.84, 2.7330}));
  return r;
}

using fields = std::vector<std::string>;

}  // namespace

TEST_CASE("results give the paper's deltas and interaction in full precision", "[study][tables]") {
  auto const r = paper();
  CHECK(r.delta("post", "joint", 42).value() == Approx(0.0004).margin(1e-9));
  CHECK(r.delta("post", "grow", 42).value() == Approx(-0.0328).margin(1e-9));
  CHECK(r.interaction("post", "grow", 42).value() == Approx(-0.0332).margin(1e-9));
  CHECK(r.delta("pre", "grow", 42).value() == 0.0);
  CHECK(r.interaction("post", "joint", 42).value() == 0.0);
  CHECK(r.ce("post", "grow", 42).value() == 2.7330);
  CHECK(r.ce("post", "grow", 42, 0).value() == 2.9846);
  CHECK(r.ce("post", "grow", 42, 1).value() == 2.84);
  CHECK_FALSE(r.ce("post", "grow", 42, 3).has_value());
  CHECK_FALSE(r.ce("post", "grow", 43).has_value());
  CHECK_FALSE(r.delta("peri", "grow", 42).has_value());
}

TEST_CASE("T1 has a row a placement, a row a difference, and the interaction below", "[study][tables]") {
  auto const t = study::final_ce_table(paper());
  CHECK(t.header == fields{"", "joint", "grow"});
  REQUIRE(t.rows.size() == 3);
  CHECK(t.rows[0] == fields{"pre", "2.76", "2.77"});
  CHECK(t.rows[1] == fields{"post", "2.76", "2.73"});
  CHECK(t.rows[2] == fields{"post - pre", "0.00", "-0.03"});
  REQUIRE(t.notes.size() == 1);
  CHECK(t.notes[0] == "interaction (post - pre, grow - joint): -0.03");
}

TEST_CASE("differences are taken seed by seed before they are averaged", "[study][tables]") {
  // The seeds lie 0.5 apart and the differences 0.002: unpaired, the interval would hide them.
  results r;
  std::vector<double> const level{2.5, 3.0, 3.5};
  std::vector<double> const difference{-0.031, -0.033, -0.035};
  for (std::size_t s = 0; s < 3; ++s) {
    r.add(cell_of("pre", "joint", {level[s]}, s + 1));
    r.add(cell_of("post", "joint", {level[s] + difference[s]}, s + 1));
  }
  auto const t = study::final_ce_table(r);
  REQUIRE(t.rows.size() == 3);
  CHECK(t.rows[0] == fields{"pre", "3.0 ± 1.2"});                // t(2) 0.5 / sqrt(3) = 1.242
  CHECK(t.rows[2] == fields{"post - pre", "-0.0330 ± 0.0050"});  // t(2) 0.002 / sqrt(3) = 0.00497
}

TEST_CASE("a seed that one side lacks counts for that side alone", "[study][tables]") {
  auto r = paper();
  r.add(cell_of("pre", "joint", {2.8}, 43));
  auto const t = study::final_ce_table(r);
  REQUIRE(t.rows.size() == 3);
  CHECK(t.rows[0][1].starts_with("2.78 ± 0.25"));  // t(1) 0.0397 / 2 = 0.252
  CHECK(t.rows[2][1] == "0.00");                   // of seed 42 alone
}

TEST_CASE("cells that are not there are dashes", "[study][tables]") {
  results r;
  r.add(cell_of("pre", "joint", {2.7603}));
  r.add(cell_of("post", "grow", {2.9846, 2.84, 2.7330}));
  auto const t = study::final_ce_table(r);
  REQUIRE(t.rows.size() == 3);
  CHECK(t.rows[0] == fields{"pre", "2.76", "-"});
  CHECK(t.rows[1] == fields{"post", "-", "2.73"});
  CHECK(t.rows[2] == fields{"post - pre", "-", "-"});
  REQUIRE(t.notes.size() == 1);
  CHECK(t.notes[0] == "interaction (post - pre, grow - joint): -");

  auto const alone = study::single_block_table(r, "grow");
  REQUIRE(alone.rows.size() == 2);
  CHECK(alone.rows[0] == fields{"pre", "-", "-", "-"});
}

TEST_CASE("no cell at all is a table without rows", "[study][tables]") {
  for (auto const& t : study::all_tables(results())) CHECK(t.rows.empty());
}

TEST_CASE("F3b has the end of each phase of every run that has several", "[study][tables]") {
  auto const t = study::phase_table(paper());
  CHECK(t.header == fields{"placement", "schedule", "phase 0", "phase 1", "phase 2"});
  REQUIRE(t.rows.size() == 2);
  CHECK(t.rows[0] == fields{"pre", "grow", "2.98", "2.85", "2.77"});
  CHECK(t.rows[1] == fields{"post", "grow", "2.98", "2.84", "2.73"});

  results late;  // the first seed's cell is missing: the row stands all the same
  late.add(cell_of("pre", "joint", {2.7603}, 42));
  late.add(cell_of("pre", "grow", {2.9802, 2.85, 2.7658}, 43));
  CHECK(study::phase_table(late).rows.size() == 1);
}

TEST_CASE("T2 has CE, KD and perplexity of the first block alone", "[study][tables]") {
  auto const t = study::single_block_table(paper(), "grow");
  REQUIRE(t.rows.size() == 2);
  CHECK(t.rows[0] == fields{"pre", "2.98", "3.02", "19.7"});
  CHECK(t.rows[1] == fields{"post", "2.98", "3.02", "19.8"});
}

TEST_CASE("T3 counts updates and tokens in three ways", "[study][tables]") {
  auto r = paper();
  r.add(cell_of("post", "joint x2", {2.78, 2.7518}));
  auto const t = study::budget_table(r);
  REQUIRE(t.rows.size() == 5);
  CHECK(t.rows[0] == fields{"pre", "joint", "100", "51.2k", "51.2k", "1.50M", "2.76"});
  CHECK(t.rows[1] == fields{"pre", "grow", "300", "51.2k", "153.6k", "4.50M", "2.77"});
  CHECK(t.rows[4] == fields{"post", "joint x2", "200", "51.2k", "102.4k", "3.00M", "2.75"});
  CHECK(t.notes == fields{"active-layer tokens: sum over updates of tokens x active layers"});
  auto control = cell_of("pre", "joint x2", {2.78, 2.7518});
  control.evaluations.back().tokens = {102400, 102400, 4.5e6 * 1.009};
  r.add(control);
  control.schedule = "joint x3";
  control.evaluations.back().tokens = {153600, 153600, 9e6};
  r.add(control);
  auto const notes = study::budget_table(r).notes;
  REQUIRE(notes.size() == 3);
  CHECK(notes[1] == "joint x2 is matched with grow on active-layer tokens");
  CHECK(notes[2] == "joint x3 is matched with grow on total tokens");
  CHECK(study::count_text(3.11e9) == "3.11B");
  CHECK(study::count_text(999) == "999");
}

TEST_CASE("plain tables line up, whatever characters are in them", "[study][table]") {
  table t{"T", "title", {"", "a", "bb"}, {{"x", "1.0 ± 0.5", "2"}, {"longer", "1", "-"}}, {"a note"}, 1};
  auto const text = study::to_plain(t);
  CHECK(text ==
        "title\n"
        "                  a  bb\n"
        "  ---------------------\n"
        "  x       1.0 ± 0.5   2\n"
        "  longer          1   -\n"
        "  a note\n");
  t.num_names = 2;
  CHECK(study::to_plain(t).find("  longer  1           -\n") != std::string::npos);
  CHECK(study::to_markdown(t).find("\n|---|---|---:|\n") != std::string::npos);
}

TEST_CASE("the report has every table and fact as Markdown, the CSV every phase's end", "[study][report]") {
  test::temporary_folder const folder;
  study::report_facts f;
  f.steps = 100;
  f.facts = {{"teacher", "a | b"}};
  f.equations = {{"pre", "x + f(norm(x))"}};
  auto const r = paper();
  study::write_report(r, f, folder.path());
  CHECK(folder.entries() == 2);

  auto const report = test::read_file(folder / "report.md");
  CHECK(report.find("A demonstration: 100 updates in a phase") != std::string::npos);
  CHECK(report.find("| post - pre | 0.00 | -0.03 |\n") != std::string::npos);
  CHECK(report.find("\n| teacher | a \\| b |\n") != std::string::npos);
  CHECK(report.find("| pre | `x + f(norm(x))` | 1.23M |\n") != std::string::npos);
  // In each Markdown table all lines have as many fields.
  std::size_t bars = 0;
  for (std::size_t at = 0; at < report.size();) {
    auto line = report.substr(at, report.find('\n', at) - at);
    at += line.size() + 1;
    for (std::size_t i; (i = line.find("\\|")) != std::string::npos;) line.erase(i, 2);
    auto const here = std::size_t(std::count(line.begin(), line.end(), '|'));
    if (bars != 0 && here != 0) CHECK(here == bars);
    bars = here;
  }

  auto const csv = test::read_file(folder / "table.csv");
  CHECK(std::count(csv.begin(), csv.end(), '\n') == 1 + 8);
  CHECK(csv.starts_with(
      "placement,schedule,seed,phase,active_layers,updates,ce,kd,targets,unique_tokens,total_"
      "tokens,active_layer_tokens,seconds\npre,joint,42,0,3,100,2.760300,2.795590,77,51200,51200,"
      "1500000,12.5\n"));
  for (std::size_t at = 0; at < csv.size();) {
    auto const line = csv.substr(at, csv.find('\n', at) - at);
    at += line.size() + 1;
    CHECK(std::count(line.begin(), line.end(), ',') == 12);
  }
}

TEST_CASE("a report does not call two thousand updates a demonstration", "[study][report]") {
  study::report_facts f;
  f.steps = 2000;
  CHECK(study::standing(f, 1) ==
        fields{"One seed: two decimals, and no claim about differences of that order."});
  f.steps = 1999;
  auto const several = study::standing(f, 3);
  REQUIRE(several.size() == 3);
  CHECK(several[0].starts_with("A demonstration: 1999 updates"));
  CHECK(several[1].starts_with("3 seeds: mean ± half-width"));
}

TEST_CASE("a report says which cells passed updates over", "[study][report]") {
  auto r = paper();
  CHECK(study::what_was_skipped(r).empty());
  auto c = cell_of("peri", "grow", {3.0, 2.9, 2.8});
  c.skipped = 1;
  r.add(c);
  c.seed = 7;
  c.skipped = 3;
  r.add(c);
  fields const expected{"peri, grow, seed 42: one update was skipped, whose loss or gradient was not finite.",
                        "peri, grow, seed 7: 3 updates were skipped, whose loss or gradient was not finite."};
  CHECK(study::what_was_skipped(r) == expected);
  CHECK(study::to_markdown(r, {}).find(expected[1]) != std::string::npos);
}
