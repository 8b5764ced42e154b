#include "accrete/study/cell.hpp"

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>

#include "support/catch.hpp"
#include "support/files.hpp"

using namespace accrete;
using study::cell;

namespace {

cell some_cell() {
  cell c;
  c.placement = "post";
  c.schedule = "grow";
  c.seed = 18446744073709551615u;
  c.settings = "everything \"quoted\", and\nmore ± than that";
  c.parameters = 123456789012;
  c.trained_parameters = 98765;
  c.seconds = 1.0 / 3;
  c.skipped = 5;
  for (int p = 0; p < 2; ++p) {
    train::evaluation_record e{p, index_t(10 * p + 10), true, 3 * p + 3, 0.1 + p, 1.0 / 3 + p, index_t(77), {}};
    e.tokens = {index_t(5000000000), 51200, 1.5e17 / 3};
    c.evaluations.push_back(e);
  }
  c.evaluations.front().end_of_phase = false;
  return c;
}

}  // namespace

TEST_CASE("a cell comes back from its file bit for bit", "[study][cell]") {
  test::temporary_folder const folder;
  auto const c = some_cell();
  study::save(c, folder.path());
  auto const back = study::load(folder.path(), c.settings);
  REQUIRE(back.has_value());
  CHECK(back->placement == c.placement);
  CHECK(back->schedule == c.schedule);
  CHECK(back->seed == c.seed);
  CHECK(back->settings == c.settings);
  CHECK(back->parameters == c.parameters);
  CHECK(back->trained_parameters == c.trained_parameters);
  CHECK(back->seconds == c.seconds);
  CHECK(back->skipped == 5);
  REQUIRE(back->evaluations.size() == c.evaluations.size());
  for (std::size_t i = 0; i < c.evaluations.size(); ++i) {
    auto const &a = c.evaluations[i], &b = back->evaluations[i];
    CHECK(a.phase == b.phase);
    CHECK(a.step == b.step);
    CHECK(a.end_of_phase == b.end_of_phase);
    CHECK(a.active_layers == b.active_layers);
    CHECK(a.kd == b.kd);
    CHECK(a.ce == b.ce);
    CHECK(a.targets == b.targets);
    CHECK(a.tokens.total == b.tokens.total);
    CHECK(a.tokens.unique == b.tokens.unique);
    CHECK(a.tokens.active_layer == b.tokens.active_layer);
  }
  CHECK(back->end_of_phase(0) == nullptr);
  CHECK(back->end_of_phase()->phase == 1);
  CHECK(back->num_phases() == 2);
}

TEST_CASE("other settings are another cell", "[study][cell]") {
  test::temporary_folder const folder;
  auto c = some_cell();
  study::save(c, folder.path());
  CHECK_FALSE(study::load(folder.path(), c.settings + ".").has_value());
  CHECK_FALSE(study::load(folder / "elsewhere", c.settings).has_value());
  // A file under another's name (two settings of one hash) is not taken for it.
  std::filesystem::rename(study::cell_path(folder.path(), c.settings),
                          study::cell_path(folder.path(), "other"));
  CHECK_FALSE(study::load(folder.path(), "other").has_value());
}

TEST_CASE("a damaged cell counts as none, and never as another", "[study][cell]") {
  test::temporary_folder const folder;
  auto const c = some_cell();
  study::save(c, folder.path());
  auto const path = study::cell_path(folder.path(), c.settings);
  auto const good = test::read_file(path);
  auto const whole = [&] { return study::load(folder.path(), c.settings).has_value(); };
  REQUIRE(whole());
  for (std::size_t n = 0; n + 2 < good.size(); n += 7) {  // the last two bytes are "}\n"
    test::write_file(path, std::string_view(good).substr(0, n));
    if (whole()) FAIL("a cell of " << n << " bytes was taken");
  }
  auto const with = [&](std::string const& from, std::string const& to) {
    auto text = good;
    auto const at = text.find(from);
    REQUIRE(at != std::string::npos);
    text.replace(at, from.size(), to);
    test::write_file(path, text);
    return whole();
  };
  CHECK(with("\"seconds\": 0.3", "\"seconds\": 0.4"));  // so the others fail for their own reason
  CHECK_FALSE(with("\"seconds\"", "\"second\""));
  CHECK_FALSE(with("\"targets\": 77", "\"targets\": -77"));
  CHECK_FALSE(with("\"targets\": 77", "\"targets\": \"77\""));
  CHECK_FALSE(with("\"targets\": 77", "\"targets\": 7.5"));
  CHECK_FALSE(with("\"phase\": 0", "\"phase\": 99999999999"));
  CHECK_FALSE(with("\"end_of_phase\": true", "\"end_of_phase\": 1"));
  CHECK_FALSE(with("\"end_of_phase\": true", "\"end_of_phase\": false"));  // it never ended
  CHECK_FALSE(with("\"placement\"", "\"placement\": 1, \"placement\""));
  test::write_file(path, good);
  CHECK(whole());
}

TEST_CASE("a cell whose loss is no number is not kept for a finished one", "[study][cell]") {
  test::temporary_folder const folder;
  auto c = some_cell();
  c.evaluations.back().ce = std::numeric_limits<double>::quiet_NaN();
  study::save(c, folder.path());
  CHECK_FALSE(study::load(folder.path(), c.settings).has_value());
}
