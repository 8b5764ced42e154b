#include <cmath>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "accrete/growth/curriculum.hpp"
#include "accrete/train/distill.hpp"
#include "accrete/train/log_lines.hpp"
#include "accrete/train/perplexity.hpp"
#include "accrete/train/progress.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/tiny_run.hpp"

using namespace accrete;
using test::relative;
using test::tiny_recipe;

namespace {

using f64 = reference::backend<double>;
using schedule = growth::curriculum<3, 1>;

distilled tiny_distilled(recipe const& r = tiny_recipe()) {
  auto t = test::tiny_teacher<f64>();
  student<placement::post, schedule, f64> s(t, r.seed);
  return distill(s, t, test::tiny_corpus(), r, test::tiny_options());
}
std::vector<std::string> lines_of(std::string const& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

/// What a progress line prints on something that is no terminal.
template <class Use>
std::string printed(Use&& use) {
  test::temporary_folder folder;
  auto const path = folder / "out";
  std::FILE* const file = std::fopen(path.c_str(), "w");
  REQUIRE(file != nullptr);
  use(file);
  std::fclose(file);
  return test::read_file(path);
}

}  // namespace

TEST_CASE("one call distils what a trainer does", "[train][distill]") {
  auto const d = tiny_distilled();
  test::tiny_run<placement::post, schedule> run(tiny_recipe());
  auto const expected = run.go();
  CHECK(d.student == "post, grow");
  CHECK(d.finished);
  CHECK(test::same_records(d.steps, expected.steps));
  CHECK(d.evaluations.back().ce == expected.evaluations.back().ce);
}

TEST_CASE("one call distils with the seed it is given and refuses a recipe that cannot work",
          "[train][distill]") {
  auto r = tiny_recipe();
  r.seed = seed{7};
  CHECK_FALSE(test::same_records(tiny_distilled(r).steps, tiny_distilled().steps));
  r.steps = 0;
  CHECK(test::error_of([&] { (void)tiny_distilled(r); }) == "recipe.steps: got 0, expected 1 or more");
}

TEST_CASE("a distilled run is written as JSON lines, one for each update and evaluation", "[train][distill]") {
  auto const d = tiny_distilled();
  test::temporary_folder folder;
  d.write(folder / "new" / "runs");
  auto const path = folder.path() / "new" / "runs" / "post__grow_seed42.jsonl";
  auto const lines = lines_of(test::read_file(path));
  REQUIRE(lines.size() == 9 + 3);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    auto const j = nlohmann::json::parse(lines[i]);
    CAPTURE(i);
    if (i < 9) {
      CHECK(j.at("kind") == "step");
      CHECK(j.at("step") == i + 1);
      CHECK(j.at("phase") == i / 3);
      CHECK(j.at("phase_step") == i % 3 + 1);
      CHECK(j.at("active_layers") == i / 3 + 1);
      double const loss = j.at("loss"), kd = j.at("kd"), ce = j.at("ce");
      CHECK(relative(loss, 0.7 * kd + 0.3 * ce) < 1e-14);  // U15: the total is made of the logged parts
      CHECK(loss == d.steps[i].loss);
      CHECK(j.at("gradient_norm") == d.steps[i].gradient_norm);
      CHECK(j.at("learning_rate") == d.steps[i].learning_rate);
    } else {
      auto const& e = d.evaluations[i - 9];
      CHECK(j.at("kind") == "evaluation");
      CHECK(j.at("ce") == e.ce);
      CHECK(relative(j.at("perplexity"), std::exp(e.ce)) < 1e-14);
      CHECK(j.at("total_tokens") == e.tokens.total);
      CHECK(j.at("unique_tokens") == e.tokens.unique);
      CHECK(j.at("active_layer_tokens") == e.tokens.active_layer);
      CHECK(j.at("end_of_phase") == true);
    }
  }
  CHECK(std::distance(std::filesystem::directory_iterator(path.parent_path()), {}) == 1);
}

TEST_CASE("a distilled run is written whole or not at all", "[train][distill]") {
  auto d = tiny_distilled();
  test::temporary_folder folder;
  auto const path = folder / "post__grow_seed42.jsonl";
  test::write_file(path, "what was there\n");
  {
    test::file_size_limit const full(700);
    auto const text = test::error_of([&] { d.write(folder.path()); });
    CAPTURE(text);
    CHECK(test::one_line(text));
    CHECK(text.find("post__grow_seed42.jsonl") != std::string::npos);
  }
  CHECK(test::read_file(path) == "what was there\n");
  CHECK(folder.entries() == 1);

  auto const text = test::error_of([&] { d.write(path / "runs"); });  // a file where a folder should be
  CAPTURE(text);
  CHECK(test::one_line(text));
  CHECK(folder.entries() == 1);
  d.write(folder.path());
  CHECK(lines_of(test::read_file(path)).size() == 12);
}

TEST_CASE("log lines stay JSON when a number is none", "[train][distill]") {
  train::step_record r;
  r.loss = std::numeric_limits<double>::quiet_NaN();
  r.gradient_norm = std::numeric_limits<double>::infinity();
  auto const j = nlohmann::json::parse(train::to_json(r).dump());
  CHECK((j.at("loss").is_null() && j.at("gradient_norm").is_null()));
  train::evaluation_record e;
  e.ce = 1e4;
  CHECK(nlohmann::json::parse(train::to_json(e).dump()).at("perplexity").is_null());
}

TEST_CASE("cross-entropy of a model does not depend on how documents are batched",
          "[train][perplexity][U24][U25]") {
  auto t = test::tiny_teacher<f64>();
  auto const text = test::tiny_corpus(30);
  // Document by document, without the function under test.
  double sum = 0;
  index_t targets = 0;
  for (index_t d = 0; d < text.num_documents(); ++d) {
    data::ragged_batch one;
    one.append(text.document(d));
    auto memory = t.make_workspace(one.num_tokens());
    auto const hidden = t.forward(model::views_of(one), memory);
    for (index_t i = 0; i + 1 < hidden.rows(); ++i) {
      double total = 0, target = 0;
      for (index_t v = 0; v < test::tiny_vocabulary; ++v) {
        double z = 0;
        for (index_t k = 0; k < hidden.columns(); ++k) z += hidden(i, k) * t.head()->view()(v, k);
        total += std::exp(z);
        if (v == one.targets[std::size_t(i)]) target = z;
      }
      sum += std::log(total) - target;
      ++targets;
    }
  }
  for (index_t const capacity : {1, 9, 10, 25, 1000}) {
    for (std::size_t const bytes : {std::size_t(1), std::size_t(1) << 20}) {
      auto const sums = train::cross_entropy_of(t, text, capacity, bytes);
      CAPTURE(capacity, bytes);
      CHECK(sums.targets == targets);
      CHECK(relative(sums.ce, sum) < 1e-12);
      // U25: the corpus' perplexity, exp of the mean over all targets.
      CHECK(relative(std::exp(sums.mean_ce()), std::exp(sum / double(targets))) < 1e-12);
    }
  }
}

TEST_CASE("cross-entropy of a model refuses a corpus without documents and tokens past its vocabulary",
          "[train][perplexity]") {
  auto t = test::tiny_teacher<f64>();
  CHECK(test::one_line(test::error_of([&] { (void)train::cross_entropy_of(t, {}, 100); })));
  data::corpus text;
  text.append(std::vector<std::int32_t>{1, 23, 2}, {});
  auto const why = test::error_of([&] { (void)train::cross_entropy_of(t, text, 100); });
  CHECK(why.find("token id 23 at position 1") != std::string::npos);
}

TEST_CASE("a progress line off a terminal is plain, comes first, last and now and then", "[train][progress]") {
  auto const show = [](double every) {
    return lines_of(printed([&](std::FILE* out) {
      train::progress_line line("pre, grow", 5, out, every);
      for (index_t i = 1; i <= 5; ++i) {
        train::step_record r;
        r.step = i;
        r.active_layers = 3;
        r.tokens = 2000;
        r.loss = 1.5;
        r.kd = 1.0;
        r.ce = 2.5;
        r.gradient_norm = 0.25;
        r.learning_rate = 1e-4;
        r.seconds = 2;
        r.operations = 3e9;
        line.show(r);
      }
      line.note("a note");
    }));
  };
  auto const rarely = show(1000);
  REQUIRE(rarely.size() == 3);
  CHECK(rarely[0].find("pre, grow  step 1/5  layers 3  loss 1.500 (kd 1.000 ce 2.500)  grad 0.25  lr 1.0e-04  "
                       "1000 tok/s  2 GFLOP/s  ") == 0);
  CHECK_THAT(rarely[0], Catch::EndsWith("left 8s"));
  CHECK_THAT(rarely[1], Catch::ContainsSubstring("step 5/5"));
  CHECK_THAT(rarely[1], Catch::EndsWith("  10s"));
  CHECK(rarely[2] == "a note");
  for (auto const& l : rarely) CHECK(l.find_first_of("\r\x1b") == std::string::npos);
  CHECK(show(0).size() == 6);
}

TEST_CASE("durations read as people say them", "[train][progress]") {
  CHECK(train::duration_text(0.4) == "0s");
  CHECK(train::duration_text(59.4) == "59s");
  CHECK(train::duration_text(59.6) == "1m00s");
  CHECK(train::duration_text(3599) == "59m59s");
  CHECK(train::duration_text(3661) == "1h01m");
  CHECK(train::duration_text(90000) == "25h00m");
  CHECK(train::peak_resident_bytes() > (std::size_t(1) << 20));
}
