#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "accrete/core/rng.hpp"
#include "accrete/data/corpus.hpp"
#include "accrete/io/weight_source.hpp"
#include "accrete/model/teacher.hpp"

/// Where a tiny teacher is too small to show something: one of any size, and text for it.
namespace test {

struct model_size {
  accrete::index_t hidden, layers, heads, kv_heads, head_dim, intermediate, vocabulary;
};

/// Random weights: matrices and tables at deviation 0.05, gains of 1.
class sized_weights final : public accrete::io::weight_source {
 public:
  explicit sized_weights(model_size const& s) {
    config.architecture = "llama";
    config.hidden_size = s.hidden;
    config.num_hidden_layers = s.layers;
    config.num_attention_heads = s.heads;
    config.num_key_value_heads = s.kv_heads;
    config.head_dim = s.head_dim;
    config.intermediate_size = s.intermediate;
    config.vocab_size = s.vocabulary;
    config.max_position_embeddings = 512;
    config.rms_norm_eps = 1e-5;
    config.rope_theta = 1e4;
    config.tie_word_embeddings = true;
    accrete::io::detail::for_each_tensor(config,
                                         [&](std::string const& name, auto shape) { shapes_[name] = shape; });
  }
  [[nodiscard]] bool has(std::string_view name) const override { return shapes_.count(std::string(name)) != 0; }
  [[nodiscard]] std::array<accrete::index_t, 2> shape(std::string_view name) const override {
    return shapes_.at(std::string(name));
  }
  void read_rows(std::string_view name, accrete::index_t first, accrete::view<float, 2> out) const override {
    bool const gain = name.find("norm") != std::string_view::npos;
    accrete::random_stream const stream(accrete::seed{11}, name);
    auto const columns = shape(name)[1];
    for (accrete::index_t i = 0; i < out.rows(); ++i)
      for (accrete::index_t j = 0; j < columns; ++j)
        out(i, j) = gain ? 1.0f : float(0.05 * stream.normal(std::uint64_t((first + i) * columns + j)));
  }
  [[nodiscard]] std::string identity() const override { return "sized"; }

 private:
  std::map<std::string, std::array<accrete::index_t, 2>> shapes_;
};

template <accrete::backend B>
accrete::teacher<B> sized_teacher(model_size const& size, B ctx = B(), accrete::index_t positions = 256) {
  return accrete::teacher<B>(std::move(ctx), sized_weights(size), std::nullopt, positions);
}

/// Documents whose lengths go round through `lengths`, of tokens below `vocabulary`.
inline accrete::data::corpus sized_corpus(accrete::index_t documents,
                                          std::vector<accrete::index_t> const& lengths,
                                          accrete::index_t vocabulary) {
  accrete::data::corpus text;
  accrete::random_stream const stream(accrete::seed{5}, "test/sized");
  std::uint64_t at = 0;
  for (accrete::index_t d = 0; d < documents; ++d) {
    auto const length = lengths[std::size_t(d) % lengths.size()];
    std::vector<std::int32_t> tokens(std::size_t(length), 0);
    for (auto& t : tokens) t = std::int32_t(stream.below(at++, std::uint64_t(vocabulary)));
    text.append(tokens, {});
  }
  return text;
}

}  // namespace test
