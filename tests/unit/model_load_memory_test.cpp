#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <optional>
#include <string>

#include "accrete/io/weights.hpp"
#include "accrete/model/teacher.hpp"
#include "accrete/reference/backend.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/model_files.hpp"
#include "support/watched_new.hpp"

using namespace accrete;

namespace {

/// Bytes of the weights of a model in numbers of T, and of the largest of them.
template <class T>
struct weight_bytes {
  std::size_t all = 0, largest = 0;
  explicit weight_bytes(test::model_in_memory const& m) {
    for (auto const& [name, values] : m.weights) all += values.size() * sizeof(T);
    largest = m.weights.at("model.embed_tokens.weight").size() * sizeof(T);
  }
};

/// Everything that opening `path` and making a teacher of it ever asks for, given back or not.
template <class T>
void check_memory_of(std::filesystem::path const& path, test::model_in_memory const& m) {
  constexpr index_t positions = 16;
  weight_bytes<T> const of_weights(m);
  auto const tables = std::size_t(positions * m.config.head_dim) * sizeof(T);
  // Names and shapes of tensors and their JSON, whatever their size; for the buffer of a type that is not f32,
  // see weight_reader.
  std::size_t const bookkeeping = 8000 * m.weights.size();
  std::size_t const buffer =
      sizeof(T) == sizeof(float) ? 0 : (std::size_t(1) << 16) * (sizeof(float) + sizeof(T));
  REQUIRE(of_weights.all > 12 * (bookkeeping + buffer));  // else a second copy would not show
  REQUIRE(of_weights.largest > 2 * (bookkeeping + buffer));

  test::largest_request = 0;
  std::size_t const before = test::bytes_requested;
  auto const source = io::open_weights(path);
  std::size_t const opened = test::bytes_requested - before;
  teacher<reference::backend<T>> t({}, *source, std::nullopt, positions);
  std::size_t const asked = test::bytes_requested - before;
  CAPTURE(path, of_weights.all, asked, opened);
  CHECK(asked >= of_weights.all);  // the count counts
  CHECK(asked < of_weights.all + tables + buffer + bookkeeping);
  CHECK(opened < bookkeeping);  // mapped, not read
  CHECK(test::largest_request == of_weights.largest);

  // Every number is where it belongs, whatever pieces it was read in.
  auto const same = [&](std::string const& name, T const* got) {
    std::size_t wrong = 0;
    for (float const v : m.weights.at(name)) wrong += *got++ != T(v);
    return wrong == 0;
  };
  CHECK(same("model.embed_tokens.weight", t.embedding()->data()));
  t.stack().parameters([&](auto& p) {
    for (auto const& part : p.parts) CHECK(same(part.name, p.value.view().row(part.first)));
  });
}

}  // namespace

TEST_CASE("a teacher of N bytes asks for N bytes: files are mapped, and weights go straight to their place",
          "[model][load][memory]") {
  test::temporary_folder folder;
  for (char const* architecture : {"llama", "qwen2"}) {
    auto config = test::small_config(architecture);
    config.hidden_size = 320;  // so that q takes more than one piece
    config.num_attention_heads = 10;
    config.num_key_value_heads = 2;
    config.head_dim = 32;
    config.intermediate_size = 512;
    config.num_hidden_layers = 6;
    config.vocab_size = 8000;
    config.tie_word_embeddings = true;
    test::model_in_memory const m(config);
    std::string const name = architecture;
    auto const single = test::save_hf(folder / (name + " single"), m);
    auto const sharded = test::save_hf(folder / (name + " sharded"), m, {.shards = 3});
    auto const gguf = test::write_file(folder / (name + ".gguf"), test::gguf_of(m).build());
    for (auto const& path : {single, sharded, gguf}) {
      check_memory_of<float>(path, m);
      check_memory_of<double>(path, m);
    }
  }
}
