#include "accrete/model/save_pretrained.hpp"

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "accrete/io/hf_weights.hpp"
#include "accrete/model/load_teacher.hpp"
#include "accrete/reference/backend.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/step_by_hand.hpp"

using namespace accrete;
using backend_type = reference::backend<double>;
using Catch::Matchers::ContainsSubstring;

namespace {

/// A placement of a user's own: two constants, two norms of one value, a value with another's gradient.
struct odd_one {
  struct half {
    static constexpr char const* name = "1/(l+2)";
    static double at(wiring::site s) { return 1.0 / (s.layer + 2.0); }
  };
  static constexpr auto both = wiring::norm(wiring::x) + wiring::norm_<1>(wiring::x);
  static constexpr auto branch = wiring::f(wiring::unit(both));
  static constexpr auto lent = wiring::straight_through(wiring::norm(wiring::x), branch);
  static constexpr auto wiring = wiring::x + wiring::constant<half>{} * branch + lent;
  static constexpr auto boundary = placement::boundary::both;
};

/// The same but for the value of a constant.
struct other_half : odd_one {
  struct half {
    static constexpr char const* name = odd_one::half::name;
    static double at(wiring::site s) { return 1.0 / (s.layer + 2.5); }
  };
  static constexpr auto wiring = wiring::x + wiring::constant<half>{} * branch + lent;
};

/// Whether files stay after the test, for a look at them with other programs.
std::filesystem::path kept_folder() {
  char const* const name = std::getenv("ACCRETE_EXPORT_FOLDER");
  return name == nullptr ? std::filesystem::path() : std::filesystem::path(name);
}

template <class Student>
std::vector<double> logits_of(teacher<backend_type>& t, Student& s, std::vector<std::int32_t> const& ids) {
  data::ragged_batch batch;
  batch.append(ids);
  auto w = s.make_workspace(batch.num_tokens());
  auto const hidden = s.forward(model::views_of(batch), w);
  tensor<double, 2> logits({hidden.rows(), t.config().vocab_size});
  linear(s.context(), hidden, s.head().value.view(), logits.view(), store::replace);
  return {logits.data(), logits.data() + logits.size()};
}

/// Weights that an f32 file holds exactly.
template <class Student>
void round_weights(Student& s) {
  s.parameters([](auto& p) {
    for (index_t i = 0; i < p.value.size(); ++i) p.value.data()[i] = double(float(p.value.data()[i]));
  });
}

template <class P>
struct exported {
  teacher<backend_type> t;
  student<P, test::joint_for<P>, backend_type> s;
  std::vector<std::int32_t> ids = test::random_document(19, 3);
  std::vector<double> logits;

  explicit exported(test::tiny_shape const& shape) : t(test::tiny_teacher<backend_type>(shape)), s(t, seed{7}) {
    test::enlarge_weights(s);
    s.head().value.view()(2, 3) = 0.25;  // not the teacher's any more
    round_weights(s);
    logits = logits_of(t, s, ids);
  }
  void write(std::filesystem::path const& folder, save_options const& o = {}) {
    save_pretrained(s, folder, o);
    std::vector<std::int64_t> const wide(ids.begin(), ids.end());
    auto const n = index_t(ids.size());
    io::safetensors_writer out(folder / "expected.safetensors");
    out.declare("input_ids", io::safetensors_dtype::i64, {n});
    out.declare("logits", io::safetensors_dtype::f64, {n, test::tiny_vocabulary});
    out.append("input_ids", std::as_bytes(std::span(wide)));
    out.append("logits", std::as_bytes(std::span(logits)));
    out.commit();
  }
};

nlohmann::json json_of(std::filesystem::path const& file) {
  return nlohmann::json::parse(test::read_file(file));
}

}  // namespace

TEST_CASE("students of every placement are written with the logits they give", "[model][save_pretrained]") {
  test::temporary_folder const own;
  auto const root = kept_folder().empty() ? own.path() : kept_folder();
  std::vector<std::pair<std::string, test::tiny_shape>> shapes(4);
  shapes[0].first = "llama";
  shapes[1] = {"qwen3", {.tied = false, .qk_norm = true}};
  shapes[2] = {"qwen2", {.qkv_bias = true}};
  shapes[3] = {"llama3", {.qkv_bias = true, .output_bias = true, .rotary = test::tiny_llama3}};
  auto const each = [&]<class P>(P) {
    for (auto const& [name, shape] : shapes) {
      auto const folder = root / (placement::has_name<P> ? placement::name_of<P>() : "odd_one") / name;
      exported<P> e(shape);
      e.write(folder);
      auto const config = json_of(folder / "config.json");
      bool const pre = std::is_same_v<P, placement::pre>;
      CHECK(config["model_type"] == (pre ? (name == "llama3" ? "llama" : name) : "accrete"));
      CHECK(std::filesystem::exists(folder / "modeling_accrete.py") == !pre);
      CHECK(config["num_hidden_layers"] == e.s.active_layers());
      CHECK(config["tie_word_embeddings"] == false);
      std::set<std::string> names;
      visit_parameters(e.s, [&](std::string const& n, auto, auto) { names.insert(n); });
      names.insert("model.embed_tokens.weight");
      std::set<std::string> written;
      io::safetensors_file const file(folder / "model.safetensors");
      for (auto const& t : file.tensors()) written.insert(t.name);
      CHECK(written == names);
    }
  };
  std::apply([&](auto... p) { (each(p), ...); }, test::placements{});
  each(odd_one{});
}

namespace {
template <class P>
std::vector<double> logits_of_loaded(std::filesystem::path const& folder,
                                     std::vector<std::int32_t> const& ids) {
  auto again = load_teacher<backend_type>(folder, {}, 64, P{});
  data::ragged_batch batch;
  batch.append(ids);
  auto w = again.make_workspace(batch.num_tokens());
  auto const hidden = again.forward(model::views_of(batch), w);
  tensor<double, 2> logits({hidden.rows(), test::tiny_vocabulary});
  linear(again.context(), hidden, again.head()->view(), logits.view(), store::replace);
  return {logits.data(), logits.data() + logits.size()};
}
}  // namespace

TEST_CASE("an exported pre-norm student is a teacher again, to the same bits",
          "[model][save_pretrained][U78]") {
  test::temporary_folder const folder;
  for (bool const qk_norm : {false, true})
    for (std::uint64_t const shard_bytes : {std::uint64_t(1) << 40, std::uint64_t(600)}) {
      exported<placement::pre> e({.qk_norm = qk_norm});
      auto const here = folder / (std::string(qk_norm ? "qwen3" : "llama") + std::to_string(shard_bytes));
      e.write(here, {.shard_bytes = shard_bytes});
      CHECK(std::filesystem::exists(here / "model.safetensors.index.json") == (shard_bytes == 600));
      std::filesystem::remove(here / "expected.safetensors");
      CHECK(test::same_bits(logits_of_loaded<placement::pre>(here, e.ids), e.logits));
    }
}

TEST_CASE("an export replaces the one that was there, in one file or in several", "[model][save_pretrained]") {
  test::temporary_folder const folder;
  exported<placement::pre> e({});
  for (std::uint64_t const shard_bytes : {std::uint64_t(1) << 40, std::uint64_t(600), std::uint64_t(1) << 40}) {
    e.s.head().value.view()(4, 1) += 0.5;
    e.logits = logits_of(e.t, e.s, e.ids);
    save_pretrained(e.s, folder.path(), {.shard_bytes = shard_bytes});
    CHECK(test::same_bits(logits_of_loaded<placement::pre>(folder.path(), e.ids), e.logits));
  }
}

TEST_CASE("a saved student of any placement is a teacher again, to the same bits", "[model][save_pretrained]") {
  test::temporary_folder const root;
  auto const each = [&]<class P>(P) {
    auto const folder = root / (placement::has_name<P> ? placement::name_of<P>() : "odd_one");
    exported<P> e({.qk_norm = true, .rotary = test::tiny_llama3});
    e.write(folder);
    std::filesystem::remove(folder / "expected.safetensors");
    CHECK(test::same_bits(logits_of_loaded<P>(folder, e.ids), e.logits));
    if constexpr (!std::is_same_v<P, placement::pre>)
      CHECK_THROWS_WITH((logits_of_loaded<placement::pre>(folder, e.ids)),
                        ContainsSubstring("pass the placement it was saved with to load_teacher"));
    if constexpr (!std::is_same_v<P, placement::post>)
      CHECK_THROWS_WITH((logits_of_loaded<placement::post>(folder, e.ids)),
                        ContainsSubstring("expected 'a = norm(x + attn(x)); norm(a + mlp(a))'"));
  };
  std::apply([&](auto... p) { (each(p), ...); }, test::placements{});
  each(odd_one{});

  // The same equation between other ends is another model.
  exported<placement::peri> e({});
  e.write(root / "ends");
  CHECK_THROWS_WITH((logits_of_loaded<placement::peri_embedding>(root / "ends", e.ids)),
                    ContainsSubstring("ends x and norm(x)") && ContainsSubstring("ends norm(x) and norm(x)"));
  // So is one whose constants have other values, whatever their names.
  exported<odd_one> odd({});
  odd.write(root / "constants");
  CHECK_THROWS_WITH((logits_of_loaded<other_half>(root / "constants", odd.ids)),
                    ContainsSubstring(" 0.5 0.5; ") && ContainsSubstring(" 0.4 0.4; "));
}

TEST_CASE("a student learns from a teacher of another placement", "[model][save_pretrained]") {
  test::temporary_folder const folder;
  exported<placement::post> e({});
  e.write(folder / "post");
  std::filesystem::remove(folder / "post" / "expected.safetensors");
  auto t = load_teacher<backend_type>(folder / "post", {}, 64, placement::post{});
  CHECK_FALSE(t.has_final_norm());
  student<placement::pre, growth::joint<2, 1>, backend_type> s(t, seed{1});
  auto const batch = test::random_batch({9, 1, 5});
  test::step_by_hand step(t, s, batch);
  auto const before = step.objective();
  step.step();
  test::descend(s, 0.05);
  CHECK(step.objective() < before);
}

TEST_CASE("bfloat16 files hold the nearest of each weight", "[model][save_pretrained]") {
  test::temporary_folder const folder;
  exported<placement::pre> e({});
  e.write(folder / "bf16", {.dtype = io::safetensors_dtype::bf16});
  CHECK(json_of(folder / "bf16" / "config.json")["dtype"] == "bfloat16");
  io::hf_weights const read(folder / "bf16");
  auto const head = e.s.head().value.view();
  tensor<float, 2> rows({head.rows(), head.columns()});
  read.read_rows("lm_head.weight", 0, rows.view());
  for (index_t i = 0; i < rows.size(); ++i) {
    double const want = head.flat()(i);
    CHECK(std::abs(double(rows.data()[i]) - want) <= std::abs(want) / 256);
  }
  CHECK(rows.view()(2, 3) == 0.25f);
}

TEST_CASE("a model's code is its wiring", "[model][save_pretrained]") {
  auto const text = model::modeling_python<odd_one>(2, 2);
  CHECK_THAT(text, ContainsSubstring(
                       "v0 = self.attn_norm_0(x)\n        v1 = self.attn_norm_1(x)\n        v2 = v0 + v1\n"));
  CHECK_THAT(text,
             ContainsSubstring("v3 = unit(v2, self.eps)\n        v4 = attn(v3)\n        v5 = self.c0 * v4\n"));
  CHECK_THAT(text, ContainsSubstring("v7 = v0.detach() + (v4 - v4.detach())\n        v8 = v6 + v7\n"));
  CHECK_THAT(text, ContainsSubstring("[0.3333333333333333, 0.3333333333333333],  # layer 1\n"));
  CHECK_THAT(text, ContainsSubstring("KINDS = [0, 0]"));
  auto const mixed = model::modeling_python<placement::mix>(6, 8);
  CHECK_THAT(mixed, ContainsSubstring("KINDS = [0, 0, 1, 1, 1, 1]"));
  auto const two = model::modeling_python<placement::residual>(1, 1);
  CHECK_THAT(two, ContainsSubstring("def equation(self, attn, mlp, x, y):"));
  CHECK_THAT(two, ContainsSubstring("NUM_STREAMS = 2\nNUM_READ = 2\n"));
}

TEST_CASE("an export that cannot be written leaves no model behind", "[model][save_pretrained]") {
  test::temporary_folder const folder;
  exported<placement::post> e({});
  test::write_file(folder / "taken", "a file");
  CHECK_THROWS_WITH(save_pretrained(e.s, folder / "taken"), ContainsSubstring("a folder to write to"));
  CHECK_THROWS_WITH(save_pretrained(e.s, folder / "x", {.dtype = io::safetensors_dtype::i32}),
                    ContainsSubstring("got I32, expected F32 or BF16"));
  e.write(folder / "twice");
  // Where a later export fails, the earlier one must not look whole.
  std::filesystem::remove(folder / "twice" / "model.safetensors");
  std::filesystem::create_directory(folder / "twice" / "model.safetensors");
  CHECK_THROWS_AS(save_pretrained(e.s, folder / "twice"), io_error);
  CHECK_FALSE(std::filesystem::exists(folder / "twice" / "config.json"));
}
