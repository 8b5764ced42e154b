#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accrete/io/weights.hpp"
#include "accrete/model/teacher.hpp"
#include "accrete/reference/backend.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/model_files.hpp"
#include "support/step_by_hand.hpp"
#include "support/written_out.hpp"

using namespace accrete;

namespace {

using backend_type = reference::backend<double>;

// Heads of 8 at theta 500,000, and the same scaled as Llama 3.1 does: tests/reference/rotary_frequencies.py.
std::vector<double> const plain_turns{1.0, 0.03760603093086393, 0.001414213562373095, 5.318295896944988e-05};
std::vector<double> const scaled_turns{1.0, 0.03760603093086393, 0.0005248461609929547, 6.647869871181235e-06};
std::vector<float> const divisors{1.0f, 1.0f, 2.6945297718048096f, 8.0f};

/// How far the model in `path` is from the one that was written there, run in plain loops.
double error_of_forward(std::filesystem::path const& path, test::model_in_memory const& m) {
  auto const batch = test::random_batch({3, 1, 7, 2});
  bool const scaled = m.config.rotary.kind == io::rotary_kind::llama3;
  test::written_out plain(m.config, batch, scaled ? scaled_turns : plain_turns);
  for (auto const& [name, values] : m.weights) {
    auto const [rows, columns] = m.shapes.at(name);
    test::rows as_rows;
    for (index_t i = 0; i < rows; ++i)
      as_rows.emplace_back(values.begin() + i * columns, values.begin() + (i + 1) * columns);
    plain.take(name, as_rows);
  }
  std::vector<double> wanted;
  for (auto const& r : plain.pre_norm(int(m.config.num_hidden_layers)))
    wanted.insert(wanted.end(), r.begin(), r.end());

  teacher<backend_type> t({}, *io::open_weights(path), std::nullopt, 32);
  auto w = t.make_workspace(batch.num_tokens());
  auto const hidden = test::named("", t.forward(model::views_of(batch), w)).numbers;
  // The head is not part of the stack: it must be what was written, or the embedding.
  auto const& head =
      m.weights.at(m.config.tie_word_embeddings ? "model.embed_tokens.weight" : "lm_head.weight");
  for (std::size_t i = 0; i < head.size(); ++i) REQUIRE(t.head()->data()[i] == double(head[i]));
  REQUIRE((t.head() == t.embedding()) == m.config.tie_word_embeddings);
  return test::worst_difference({{"", hidden}}, {{"", wanted}});
}

std::vector<io::model_config> every_kind() {
  std::vector<io::model_config> all;
  for (char const* architecture : {"llama", "qwen2", "qwen3"})
    for (bool const tied : {true, false}) {
      all.push_back(test::small_config(architecture));
      all.back().tie_word_embeddings = tied;
    }
  auto scaled = test::small_config("llama");
  scaled.rotary = {io::rotary_kind::llama3, 8, 1, 4, 8192};
  auto biased = test::small_config("llama");
  biased.qkv_bias = biased.output_bias = true;
  all.push_back(scaled);
  all.push_back(biased);
  return all;
}

}  // namespace

TEST_CASE("a teacher from a Hugging Face directory computes what its architecture says", "[model][load]") {
  test::temporary_folder folder;
  int number = 0;
  for (auto const& config : every_kind()) {
    test::model_in_memory const m(config);
    CAPTURE(number, config.architecture);
    auto const at = [&](char const* name) { return folder / (std::to_string(number) + name); };
    CHECK(error_of_forward(test::save_hf(at("single"), m), m) < 1e-12);
    CHECK(error_of_forward(test::save_hf(at("sharded"), m, {.newer_rope = true, .shards = 3}), m) < 1e-12);
    ++number;
  }
  auto biased = test::small_config("qwen3");
  biased.qkv_bias = biased.output_bias = true;
  test::model_in_memory const m(biased);
  CHECK(error_of_forward(test::save_hf(folder / "biased qwen3", m), m) < 1e-12);
}

TEST_CASE("a teacher from a GGUF file computes what its architecture says", "[model][load]") {
  test::temporary_folder folder;
  int number = 0;
  for (auto const& config : every_kind()) {
    test::model_in_memory const m(config);
    CAPTURE(number, config.architecture);
    bool const scaled = config.rotary.kind == io::rotary_kind::llama3;
    auto const path = test::write_file(folder / (std::to_string(number++) + ".gguf"),
                                       test::gguf_of(m, scaled ? divisors : std::vector<float>{}).build());
    CHECK(error_of_forward(path, m) < 1e-12);
    CHECK(io::open_weights(path)->config.rotary == config.rotary);
  }
}

TEST_CASE("a model without its head has names without a prefix, and is read all the same", "[model][load]") {
  test::temporary_folder folder;
  auto config = test::small_config("qwen3");
  config.tie_word_embeddings = true;
  test::model_in_memory const m(config);
  CHECK(error_of_forward(test::save_hf(folder / "bare", m, {.prefix = ""}), m) < 1e-12);
  CHECK(error_of_forward(test::save_hf(folder / "shards", m, {.shards = 2, .prefix = ""}), m) < 1e-12);
}
