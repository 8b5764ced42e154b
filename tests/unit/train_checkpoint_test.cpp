#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "accrete/growth/curriculum.hpp"
#include "accrete/io/folder_lock.hpp"
#include "accrete/io/leftovers.hpp"
#include "accrete/train/checkpoint_file.hpp"
#include "accrete/train/checkpoint_folder.hpp"
#include "accrete/train/trainer.hpp"
#include "accrete/train/write_checkpoint.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/tiny_run.hpp"

using namespace accrete;
using test::same_bits;
using test::tiny_recipe;

namespace {

using run_type = test::tiny_run<placement::post, growth::curriculum<3, 1>>;

/// A student that has been trained a little, and where its run stands.
struct trained {
  run_type run;
  train::run_state state;
  train::run_facts facts{{"teacher", "tiny"}, {"note", "a \"quoted\" ± one"}};

  trained() : run(tiny_recipe(), {}, test::tiny_options(), {.qk_norm = true}) {
    run.trainer.begin_phase(0);
    for (index_t i = 1; i <= 3; ++i) state.result.steps.push_back(run.trainer.update(0, i, i, 0.01));
    run.trainer.begin_phase(1);
    state.result.steps.push_back(run.trainer.update(1, 4, 1, 0.01));
    state.result.evaluations.push_back(run.trainer.evaluate(1, 4, false));
    state.phase = 1;
    state.phase_step = 1;
    state.order = run.trainer.order_state();
    state.seen = 9;
    state.counts = {index_t(1) << 52, 77, 1.5e17 / 3};
    state.result.skipped = 2;
    state.result.seconds = 1.0 / 3;
  }
  void write(std::filesystem::path const& path) {
    train::write_checkpoint(path, facts, state, train::parameters_of(run.student));
  }
};
/// A student of the same type that stands in phase 1, with other numbers.
struct other {
  run_type run{tiny_recipe(), {}, test::tiny_options(), {.qk_norm = true}};
  other() {
    run.student.begin_phase(1);
    test::enlarge_weights(run.student);
  }
  void read(train::checkpoint_file const& file) { file.read_parameters(train::parameters_of(run.student)); }
};

/// What a file says, to be changed and written again under a checksum that fits.
struct contents {
  std::map<std::string, std::string> metadata;
  struct one {
    io::safetensors_dtype dtype;
    std::vector<index_t> shape;
    std::string bytes;
  };
  std::map<std::string, one> tensors;

  explicit contents(std::filesystem::path const& path) {
    io::safetensors_file const file(path);
    for (auto const& [key, value] : file.metadata()) metadata[key] = value;
    for (auto const& t : file.tensors())
      tensors[t.name] = {t.dtype, t.shape, {reinterpret_cast<char const*>(t.bytes.data()), t.bytes.size()}};
  }
  void write(std::filesystem::path const& path) {
    std::vector<io::safetensors_tensor> all;
    for (auto const& [name, t] : tensors)
      all.push_back({name, t.dtype, t.shape, std::as_bytes(std::span(t.bytes.data(), t.bytes.size()))});
    metadata["checksum"] = train::detail::checksum(metadata, all);
    io::safetensors_writer out(path);
    for (auto const& [key, value] : metadata) out.metadata(key, value);
    for (auto const& t : all) out.declare(t.name, t.dtype, t.shape);
    for (auto const& t : all)
      if (!t.bytes.empty()) out.append(t.name, t.bytes);
    out.commit();
  }
};
void replace(std::string& text, std::string const& from, std::string const& to) {
  auto const at = text.find(from);
  REQUIRE(at != std::string::npos);
  text.replace(at, from.size(), to);
}

train::checkpoint_options kept_in(std::filesystem::path folder) {
  train::checkpoint_options keep;
  keep.folder = std::move(folder);
  keep.every_minutes = 0;
  return keep;
}

}  // namespace

TEST_CASE("a checkpoint gives back every bit of what it was given", "[train][checkpoint][U53][U78]") {
  test::temporary_folder const folder;
  trained t;
  t.write(folder / "c");
  train::checkpoint_file const file(folder / "c");
  auto const& s = file.state();
  CHECK((s.phase == 1 && s.phase_step == 1 && s.step() == 4 && s.evaluated()));
  CHECK(s.order == t.state.order);
  CHECK((s.seen == 9 && s.result.skipped == 2 && s.result.seconds == 1.0 / 3));
  CHECK((s.counts.total == index_t(1) << 52 && s.counts.unique == 77 && s.counts.active_layer == 1.5e17 / 3));
  CHECK(test::same_records(s.result.steps, t.state.result.steps));
  CHECK(test::same_records(s.result.evaluations, t.state.result.evaluations));
  CHECK(s.result.steps.back().seconds == t.state.result.steps.back().seconds);
  CHECK(s.result.steps.back().operations == t.state.result.steps.back().operations);
  CHECK(file.facts() ==
        std::vector<std::pair<std::string, std::string>>{{"note", "a \"quoted\" ± one"}, {"teacher", "tiny"}});

  other o;
  CHECK_FALSE(same_bits(test::training_state_of(o.run.student), test::training_state_of(t.run.student)));
  o.read(file);
  CHECK(same_bits(test::training_state_of(o.run.student), test::training_state_of(t.run.student)));
  CHECK(folder.entries() == 1);

  // Three numbers for each weight, and a header: nothing is missing, nothing is there twice.
  std::uintmax_t numbers = 0;
  t.run.student.parameters([&](auto& p) { numbers += std::uintmax_t(p.value.size()); });
  auto const size = std::filesystem::file_size(folder / "c");
  CHECK((size > 3 * 8 * numbers && size < 3 * 8 * numbers + 20000));
}

TEST_CASE("a checkpoint's weights have Hugging Face's names and shapes", "[train][checkpoint]") {
  test::temporary_folder const folder;
  trained t;
  t.write(folder / "c");
  io::safetensors_file const file(folder / "c");
  auto const shape = [&](char const* name) { return file.tensor(name).shape; };
  CHECK(shape("lm_head.weight") == std::vector<index_t>{23, 12});
  CHECK(shape("lm_head.weight.exp_avg") == std::vector<index_t>{23, 12});
  CHECK(shape("model.layers.1.self_attn.k_proj.weight") == std::vector<index_t>{4, 12});
  CHECK(shape("model.layers.1.self_attn.k_proj.weight.exp_avg_sq") == std::vector<index_t>{4, 12});
  CHECK(shape("model.layers.0.self_attn.q_norm.weight") == std::vector<index_t>{4});
  CHECK(shape("records.steps") == std::vector<index_t>{4, 15});
  CHECK(file.metadata().at("records.steps").starts_with("phase step phase_step active_layers"));
  CHECK(file.find_tensor("model.embed_tokens.weight") == nullptr);  // the teacher's, which a fact names
  std::map<std::string, test::named_numbers> expected;
  for (auto& v : test::values_of(t.run.student)) expected[v.name] = v;
  for (auto const& [name, v] : expected)
    CHECK(file.tensor(name).bytes.size() == v.numbers.size() * sizeof(double));
  CHECK(file.tensors().size() == 3 * expected.size() + 2);
}

TEST_CASE("a frozen weight is kept without moments", "[train][checkpoint]") {
  test::temporary_folder const folder;
  trained t;
  t.run.student.head().set_trainable(false);
  t.write(folder / "c");
  CHECK(io::safetensors_file(folder / "c").find_tensor("lm_head.weight.exp_avg") == nullptr);
  other o;  // where it trains
  auto const text = test::error_of([&] { o.read(train::checkpoint_file(folder / "c")); });
  CAPTURE(text);
  CHECK(text.find("no update count of 'lm_head.weight', expected one, as it trains") != std::string::npos);
}

TEST_CASE("an eleventh update after a checkpoint is Adam's eleventh", "[train][checkpoint][U52][U53]") {
  auto r = tiny_recipe();
  r.weight_decay = 0;
  r.max_gradient_norm = 1e9;
  double const rate = 0.01;
  auto const update = [&](run_type& run) {
    run.student.parameters([](auto& p) { std::fill_n(p.gradient.data(), p.gradient.size(), 1.0); });
    (void)train::apply_adamw(run.student, r, rate, 1);
  };
  trained first;
  train::reset_optimizer(first.run.student);
  for (int i = 0; i < 10; ++i) update(first.run);
  test::temporary_folder const folder;
  first.write(folder / "c");
  other second;
  second.read(train::checkpoint_file(folder / "c"));
  auto& head = second.run.student.head();
  CHECK(head.updates == 10);
  CHECK(std::abs((1 - std::pow(r.beta2, double(head.updates))) - 0.401263) < 1e-6);
  double const before = head.value.data()[5];
  update(second.run);
  update(first.run);
  CHECK(std::abs((before - head.value.data()[5]) / rate - 1.0) < 1e-6);  // lost moments would give 0.482
  CHECK(same_bits(test::training_state_of(second.run.student), test::training_state_of(first.run.student)));
}

TEST_CASE("a checkpoint that is cut short at any byte is refused", "[train][checkpoint][U56]") {
  test::temporary_folder const folder;
  trained t;
  t.write(folder / "c");
  test::damaged_file file(folder / "c", test::read_file(folder / "c"));
  train::checkpoint_file const whole(folder / "c");
  auto const size = file.good().size();
  auto const check = [&](std::size_t length) {
    std::string const text = test::error_of([&] { train::checkpoint_file const cut(folder / "c"); });
    if (!test::one_line(text) || text.find("'" + (folder / "c").string() + "'") == std::string::npos)
      FAIL("of " << size << " bytes " << length << ": " << text);
  };
  file.cut([&](std::size_t n) { return n == size || n < 20 || n == size / 2 + 1 ? 1 : 997; }, check);
  CHECK(std::filesystem::file_size(folder / "c") == 0);
}

TEST_CASE("a checkpoint with any bit flipped is refused", "[train][checkpoint][U56]") {
  test::temporary_folder const folder;
  trained t;
  t.write(folder / "c");
  test::damaged_file file(folder / "c", test::read_file(folder / "c"));
  auto const bits = 8 * file.good().size();
  auto const header = 8 * (8 + std::size_t(*reinterpret_cast<unsigned char const*>(file.good().data())) +
                           256 * std::size_t(*reinterpret_cast<unsigned char const*>(file.good().data() + 1)));
  REQUIRE(header < bits / 4);
  random_stream const stream(seed{1}, "test/bits");
  for (std::uint64_t i = 0; i < 1000; ++i) {  // half of them in the header
    auto const bit = std::size_t(stream.below(i, i % 2 == 0 ? header : bits));
    file.with_bit_flipped(bit, [&] {
      std::string const text = test::error_of([&] { train::checkpoint_file const flipped(folder / "c"); });
      if (!test::one_line(text)) FAIL("bit " << bit << ": " << text);
    });
  }
  train::checkpoint_file const whole(folder / "c");
}

TEST_CASE("a checkpoint that does not fit is refused by name and changes nothing", "[train][checkpoint][U52]") {
  test::temporary_folder const folder;
  trained t;
  t.write(folder / "c");
  contents const good(folder / "c");
  std::string const moment = "model.layers.0.mlp.down_proj.weight.exp_avg_sq";
  struct fault {
    char const* what;
    std::function<void(contents&)> make;
    std::string says;
  };
  std::vector<fault> const faults{
      {"a moment of another shape",
       [&](contents& c) { std::swap(c.tensors[moment].shape[0], c.tensors[moment].shape[1]); },
       "tensor '" + moment + "': got F64[10, 12], expected F64[12, 10]"},
      {"a moment of another type",
       [&](contents& c) {
         c.tensors[moment].dtype = io::safetensors_dtype::f32;
         c.tensors[moment].shape = {12, 20};
       },
       "got F32[12, 20], expected F64[12, 10]"},
      {"a moment that is missing", [&](contents& c) { c.tensors.erase(moment); }, "no tensor '" + moment + "'"},
      {"a weight too many", [&](contents& c) { c.tensors["model.layers.2.x"] = c.tensors[moment]; },
       "tensor 'model.layers.2.x'"},
      {"no update count", [](contents& c) { replace(c.metadata["updates"], "lm_head", "lm_tail"); },
       "no update count of 'lm_head.weight'"},
      {"another version", [](contents& c) { c.metadata["format"] = "accrete checkpoint 9"; },
       "got format 'accrete checkpoint 9', expected 'accrete checkpoint 1'"},
      {"no place", [](contents& c) { c.metadata.erase("place"); }, "no place in its metadata"},
      {"half a place", [](contents& c) { replace(c.metadata["place"], "\"seen\"", "\"seem\""); }, "no seen"},
      {"a place that is no number",
       [](contents& c) { replace(c.metadata["place"], "\"seen\":9", "\"seen\":-9"); }, "seen: got -9"},
      {"a phase past all plans",
       [](contents& c) { replace(c.metadata["place"], "\"phase\":1", "\"phase\":4294967296"); },
       "phase 429496"},
      {"facts that are a list", [](contents& c) { c.metadata["facts"] = "[]"; }, "facts: got an array"},
      {"records of fewer columns",
       [](contents& c) {
         c.tensors["records.steps"].shape = {10, 6};
       },
       "records.steps: got F64[10, 6], expected F64[rows, 15]"},
      {"half a step",
       [](contents& c) {
         double const half = 0.5;
         c.tensors["records.steps"].bytes.replace(
             8, 8, std::string(reinterpret_cast<char const*>(&half), sizeof half));
       },
       "step 0.500000, expected a whole number"},
      {"a step that is none",
       [](contents& c) {
         double const none = std::numeric_limits<double>::quiet_NaN();
         c.tensors["records.steps"].bytes.replace(
             8, 8, std::string(reinterpret_cast<char const*>(&none), sizeof none));
       },
       "expected a whole number"}};
  other o;
  auto const before = test::training_state_of(o.run.student);
  for (auto const& [what, make, says] : faults) {
    auto bad = good;
    make(bad);
    bad.write(folder / "c");
    auto const text = test::error_of([&] { o.read(train::checkpoint_file(folder / "c")); });
    CAPTURE(what, text);
    CHECK(test::one_line(text));
    CHECK(text.find(says) != std::string::npos);
    CHECK(same_bits(test::training_state_of(o.run.student), before));
  }
  auto same = good;
  same.write(folder / "c");
  o.read(train::checkpoint_file(folder / "c"));  // so they fail for their own reasons
}

TEST_CASE("a folder keeps the last ones and the best", "[train][checkpoint]") {
  auto r = tiny_recipe(10);
  r.evaluate_every = 1;
  r.peak_learning_rate = r.min_learning_rate = 0.3;  // too high: the loss goes up and down
  for (int const last : {1, 2, 5}) {
    test::temporary_folder const folder;
    auto keep = kept_in(folder / "run");
    keep.every_steps = 4;
    keep.keep_last = last;
    run_type run(r, {}, test::tiny_options(), {}, keep);
    auto const result = run.go();
    auto const kept = [&] {
      std::vector<std::string> names;
      for (auto const& e : std::filesystem::directory_iterator(folder / "run"))
        names.push_back(e.path().filename().string());
      std::sort(names.begin(), names.end());
      return names;
    }();
    std::vector<std::string> expected{".lock", "best.safetensors"};
    std::vector<index_t> const written{4, 8, 12, 16, 20, 24, 28, 30};
    for (auto step = written.end() - last; step != written.end(); ++step)
      expected.push_back("step-" + std::string(*step < 10 ? "0000000" : "000000") + std::to_string(*step) +
                         ".safetensors");
    CHECK(kept == expected);

    train::evaluation_record const* best = nullptr;
    for (auto const& e : result.evaluations)
      if (e.active_layers == 3 && (best == nullptr || e.ce < best->ce)) best = &e;
    REQUIRE(best != nullptr);
    CHECK(best->step < 30);  // so the last is not the best by chance
    CHECK(train::checkpoint_file(folder / "run" / "best.safetensors").state().step() == best->step);
  }
}

TEST_CASE("the best is a second name of a checkpoint that is there anyway", "[train][checkpoint]") {
  test::temporary_folder const folder;
  for (int i = 0; i < 2; ++i) {  // the second time both names are one file's already
    run_type run(tiny_recipe(), {}, test::tiny_options(), {}, kept_in(folder / "run"));
    CHECK(run.go().finished);
    CHECK(std::filesystem::equivalent(folder / "run" / "best.safetensors",
                                      folder / "run" / "step-00000009.safetensors"));
  }
  CHECK(std::distance(std::filesystem::directory_iterator(folder / "run"), {}) == 2);
}

TEST_CASE("checkpoints are due by updates, by time, or both", "[train][checkpoint]") {
  test::temporary_folder const folder;
  auto keep = kept_in(folder / "run");
  keep.every_steps = 3;
  {
    train::checkpoint_folder f(keep);
    CHECK((f.is_due(3) && f.is_due(6) && !f.is_due(1) && !f.is_due(4)));
  }
  keep.every_steps = 0;
  {
    train::checkpoint_folder f(keep);
    CHECK((!f.is_due(1) && !f.is_due(3)));
  }
  keep.every_minutes = 1e-9;
  {
    train::checkpoint_folder f(keep);
    CHECK((f.is_due(1) && f.is_due(2)));
  }
  keep.every_minutes = 1;
  train::checkpoint_folder f(keep);
  CHECK_FALSE(f.is_due(1));
  using options = train::checkpoint_options;
  std::vector<std::pair<options, std::string>> const bad{
      {options{.folder = folder / "a", .every_steps = -1}, "every_steps: got -1"},
      {options{.folder = folder / "a", .every_minutes = -1}, "every_minutes: got -1"},
      {options{.folder = folder / "a", .keep_last = 0}, "keep_last: got 0"}};
  for (auto const& one : bad)
    CHECK(test::error_of([&] { train::checkpoint_folder g(one.first); }).find("checkpoints." + one.second) ==
          0);
  CHECK_FALSE(std::filesystem::exists(folder / "a"));
}

TEST_CASE("a damaged checkpoint is named, set aside, and the one before it serves",
          "[train][checkpoint][U56]") {
  auto const r = tiny_recipe();
  test::temporary_folder const folder;
  auto keep = kept_in(folder / "run");
  keep.every_steps = 1;
  keep.keep_best = false;
  auto const attempt = [&](index_t last, std::vector<std::string>& notes) {
    train::run_events events;
    index_t done = 0, begun_after = 0;
    events.on_step = [&](train::step_record const& s) { done = s.step; };
    events.stop_wanted = [&] { return done == last; };
    events.on_note = [&](std::string const& text) { notes.push_back(text); };
    events.on_resume = [&](train::run_state const& s, std::filesystem::path const&) { begun_after = s.step(); };
    run_type run(r, events, test::tiny_options(), {}, keep);
    auto const result = run.go();
    return std::pair(begun_after, result);
  };
  std::vector<std::string> ignored;
  run_type straight(r);
  auto const whole = straight.go();
  auto const newest = folder / "run" / "step-00000006.safetensors";
  for (std::string const damage : {"empty", "one byte", "half", "all but a byte", "a bit", "text"}) {
    std::filesystem::remove_all(folder / "run");
    (void)attempt(6, ignored);
    auto const size = std::filesystem::file_size(newest);
    if (damage == "empty") std::filesystem::resize_file(newest, 0);
    if (damage == "one byte") std::filesystem::resize_file(newest, 1);
    if (damage == "half") std::filesystem::resize_file(newest, size / 2);
    if (damage == "all but a byte") std::filesystem::resize_file(newest, size - 1);
    if (damage == "a bit") {
      auto bytes = test::read_file(newest);
      bytes[size - 1000] = char(bytes[size - 1000] ^ 4);
      test::write_file(newest, bytes);
    }
    if (damage == "text") test::write_file(newest, "no checkpoint at all");
    test::write_file(folder / "run" / "step-00000007.safetensors.tmp.1234.0", "half-written");
    std::vector<std::string> notes;
    auto const [after, result] = attempt(0, notes);
    CAPTURE(damage, notes);
    CHECK(after == 5);
    CHECK(test::same_result(result, whole));
    REQUIRE_FALSE(notes.empty());
    CHECK(notes.front().find("'" + newest.string() + "'") != std::string::npos);
    CHECK(notes.front().ends_with("; looking for an older one"));
    CHECK(test::one_line(notes.front()));
    CHECK(std::filesystem::exists(folder / "run" / "step-00000006.safetensors.damaged"));
    CHECK_FALSE(std::filesystem::exists(folder / "run" / "step-00000007.safetensors.tmp.1234.0"));
  }

  // Where none is whole a run does not begin anew behind its user's back.
  std::filesystem::remove_all(folder / "run");
  (void)attempt(6, ignored);
  for (auto const& e : std::filesystem::directory_iterator(folder / "run"))
    std::filesystem::resize_file(e.path(), 100);
  auto const text = test::error_of([&] { (void)attempt(0, ignored); });
  CAPTURE(text);
  CHECK(test::one_line(text));
  CHECK(text.find("got 2 of which none is whole") != std::string::npos);
}

TEST_CASE("a weight that is not finite is never kept", "[train][checkpoint]") {
  test::temporary_folder const folder;
  auto keep = kept_in(folder / "run");
  keep.every_steps = 1;
  train::run_events events;
  run_type* running = nullptr;
  events.on_step = [&](train::step_record const& s) {
    if (s.step == 5) running->student.head().value.data()[3] = std::numeric_limits<double>::quiet_NaN();
  };
  run_type run(tiny_recipe(), events, test::tiny_options(), {}, keep);
  running = &run;
  std::string text;
  try {
    (void)run.go();
  } catch (numeric_error const& e) {
    text = e.what();
  }
  CHECK(text.find("checkpoint after step 5: got a weight of lm_head.weight that is not finite") == 0);
  train::checkpoint_file const last(folder / "run" / "step-00000004.safetensors");
  CHECK(last.state().step() == 4);
  CHECK_FALSE(std::filesystem::exists(folder / "run" / "step-00000005.safetensors"));
}

TEST_CASE("a lock on a folder ends with its owner and leaves nothing behind", "[io][lock]") {
  test::temporary_folder const folder;
  {
    io::folder_lock const first(folder.path());
    CHECK(first.held());
    CHECK(folder.entries() == 1);
    auto const text = test::error_of([&] { io::folder_lock const second(folder.path()); });
    CAPTURE(text);
    CHECK(test::one_line(text));
    CHECK(text.find("folder '" + folder.path().string() + "': got 'process ") == 0);
    CHECK(text.find("writing there, expected no other") != std::string::npos);
  }
  CHECK(folder.entries() == 0);
  test::write_file(folder / ".lock", "process 1 on a machine that is gone\n");  // a crash left it
  io::folder_lock const third(folder.path());
  CHECK(third.held());
  CHECK(test::one_line(test::error_of([&] { io::folder_lock const none(folder / "missing"); })));
}

TEST_CASE("only what an atomic file left half-written counts as a leftover", "[io][leftovers]") {
  for (char const* name : {"a.tmp.1.0", "step-00000001.safetensors.tmp.123.45", ".probe.tmp.9.9"})
    CHECK(io::is_temporary_name(name));
  for (char const* name : {"", "1.0", ".tmp.1.0", "a.tmp.1", "a.tmp.1.", "a.tmp..1", "a.tmp.1.0x", "a.tmp.x.1",
                           "a.temp.1.0", "tmp.1.0", "step-1.safetensors"})
    CHECK_FALSE(io::is_temporary_name(name));
  test::temporary_folder const folder;
  test::write_file(folder / "a.tmp.1.0", "x");
  test::write_file(folder / "a", "x");
  std::filesystem::create_directory(folder / "b.tmp.1.0");
  CHECK(io::remove_leftovers(folder.path()) == 1);
  CHECK(folder.entries() == 2);
  CHECK(io::remove_leftovers(folder / "missing") == 0);
}
