#pragma once
// The models and the batch that a step is timed on, and how another program gets the same ones.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "accrete/core/rng.hpp"
#include "accrete/core/view.hpp"
#include "accrete/data/corpus.hpp"
#include "accrete/data/ragged_batch.hpp"
#include "accrete/data/token_shard.hpp"
#include "accrete/io/atomic_file.hpp"
#include "accrete/io/hf_config_writer.hpp"
#include "accrete/io/safetensors_writer.hpp"
#include "accrete/io/weight_source.hpp"

namespace step_model {

using accrete::index_t;

/// Sizes; those that are not named follow from the width, in the proportions of 12/4 heads of 64 and an MLP of
/// 2048 at 768.
struct sizes {
  index_t vocabulary = 32768, width = 768, teacher_layers = 12, documents = 8, length = 256;

  [[nodiscard]] index_t tokens() const { return documents * length; }
  [[nodiscard]] accrete::io::model_config config() const {
    accrete::io::model_config c;
    c.architecture = "llama";
    c.hidden_size = width;
    c.num_hidden_layers = teacher_layers;
    c.head_dim = 64;
    c.num_attention_heads = std::max<index_t>(1, width / c.head_dim);
    c.num_key_value_heads = std::max<index_t>(1, c.num_attention_heads / 3);
    while (c.num_attention_heads % c.num_key_value_heads != 0) --c.num_key_value_heads;
    c.intermediate_size = (width * 8 / 3 + 63) / 64 * 64;
    c.vocab_size = vocabulary;
    c.max_position_embeddings = length;
    return c;
  }
};

/// A teacher with random weights, as if it came from a file. Its head is drawn wide enough for answers that
/// differ.
struct random_teacher final : accrete::io::weight_source {
  explicit random_teacher(sizes const& s) { config = s.config(); }
  bool has(std::string_view) const override { return true; }
  accrete::io::tensor_shape shape(std::string_view) const override { return {}; }
  void read_rows(std::string_view name, index_t first, accrete::view<float, 2> out) const override {
    bool const gain = name.find("norm") != std::string_view::npos;
    float const width = name == "lm_head.weight" ? 0.16F : 0.08F;
    accrete::random_stream const stream({1}, name);
    for (index_t i = 0; i < out.rows(); ++i)
      for (index_t j = 0; j < out.columns(); ++j)
        out(i, j) =
            gain ? 1.0F : width * float(stream.uniform(std::uint64_t((first + i) * out.columns() + j)) - 0.5);
  }
  std::string identity() const override { return "random"; }
};

/// Documents of one length and random tokens.
inline accrete::data::corpus random_text(sizes const& s) {
  accrete::data::corpus text;
  accrete::random_stream const stream({2}, "text");
  std::vector<std::int32_t> document(static_cast<std::size_t>(s.length));
  for (index_t d = 0; d < s.documents; ++d) {
    for (std::size_t i = 0; i < document.size(); ++i)
      document[i] =
          std::int32_t(stream.below(std::uint64_t(d) * document.size() + i, std::uint64_t(s.vocabulary)));
    text.append(document, {accrete::data::cutting::first, s.length});
  }
  return text;
}

/// All of the text's documents as one batch.
inline accrete::data::ragged_batch whole_batch(accrete::data::corpus const& text) {
  accrete::data::ragged_batch batch;
  for (index_t d = 0; d < text.num_documents(); ++d) batch.append(text.document(d), d);
  return batch;
}

/// Writes `folder`/teacher as a directory of Hugging Face's kind in f32. Throws io_error.
inline void export_teacher(accrete::io::weight_source const& source, std::filesystem::path const& folder) {
  using accrete::io::safetensors_dtype;
  auto const& c = source.config;
  std::filesystem::create_directories(folder / "teacher");
  accrete::io::safetensors_writer out(folder / "teacher" / "model.safetensors");
  accrete::io::detail::for_each_tensor(c, [&](std::string const& name, accrete::io::tensor_shape const& shape) {
    out.declare(name, safetensors_dtype::f32,
                shape[0] == 1 ? std::vector<index_t>{shape[1]} : std::vector<index_t>{shape[0], shape[1]});
  });
  std::vector<float> rows;
  accrete::io::detail::for_each_tensor(c, [&](std::string const& name, accrete::io::tensor_shape const& shape) {
    constexpr index_t at_once = 1024;
    for (index_t first = 0; first < shape[0]; first += at_once) {
      index_t const count = std::min(at_once, shape[0] - first);
      rows.resize(std::size_t(count * shape[1]));
      source.read_rows(name, first, {rows.data(), {count, shape[1]}});
      out.append(name, std::as_bytes(std::span(rows)));
    }
  });
  out.commit();
  accrete::io::write_atomically(folder / "teacher" / "config.json",
                                accrete::io::hf_config(c, "float32").dump(2) + "\n");
}

/// Writes `folder`/tokens.safetensors, a token shard of the batch. Throws io_error.
inline void export_tokens(accrete::io::model_config const& c, accrete::data::corpus const& text,
                          std::filesystem::path const& folder) {
  accrete::data::write_token_shard(
      folder / "tokens.safetensors",
      {.tokenizer = "random", .vocabulary = c.vocab_size, .max_length = c.max_position_embeddings}, text.tokens,
      text.offsets, text.text_starts());
}

}  // namespace step_model
