#pragma once
#include <array>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "accrete/core/rng.hpp"
#include "accrete/data/ragged_batch.hpp"
#include "accrete/io/weight_source.hpp"
#include "accrete/model/teacher.hpp"
#include "accrete/placement/deepnorm.hpp"
#include "accrete/placement/hybrid.hpp"
#include "accrete/placement/mix.hpp"
#include "accrete/placement/olmo2.hpp"
#include "accrete/placement/peri.hpp"
#include "accrete/placement/post.hpp"
#include "accrete/placement/pre.hpp"
#include "accrete/placement/residual.hpp"

/// A teacher that is built in a millisecond, and batches for it. Every size is odd or at least unlike the
/// others, so that a swapped pair of them is a wrong shape.
namespace test {

struct tiny_shape {
  accrete::index_t layers = 2;
  accrete::index_t heads = 3;
  accrete::index_t kv_heads = 1;
  bool tied = true;
  bool qk_norm = false;
  accrete::seed weights{11};
  bool qkv_bias = false;
  bool output_bias = false;
  accrete::io::rotary_scaling rotary{};
};

inline constexpr accrete::index_t tiny_vocabulary = 23;

/// At theta 100 and heads of 4 the two waves are 6.3 and 63 positions long: one stays, one is stretched in
/// part.
inline constexpr accrete::io::rotary_scaling tiny_llama3{accrete::io::rotary_kind::llama3, 8.0, 1.0, 4.0, 100};

/// Random weights under Hugging Face's names: matrices and tables at deviation 0.4, gains around 1.
class tiny_weights final : public accrete::io::weight_source {
 public:
  explicit tiny_weights(tiny_shape const& s = {}) : seed_(s.weights) {
    config.architecture = s.qk_norm ? "qwen3" : "llama";
    config.hidden_size = 12;
    config.num_hidden_layers = s.layers;
    config.num_attention_heads = s.heads;
    config.num_key_value_heads = s.kv_heads;
    config.head_dim = 4;
    config.intermediate_size = 10;
    config.vocab_size = tiny_vocabulary;
    config.max_position_embeddings = 64;
    config.rms_norm_eps = 1e-5;
    config.rope_theta = 100.0;
    config.tie_word_embeddings = s.tied;
    config.qk_norm = s.qk_norm;
    config.qkv_bias = s.qkv_bias;
    config.output_bias = s.output_bias;
    config.rotary = s.rotary;
    accrete::io::detail::for_each_tensor(config,
                                         [&](std::string const& name, auto shape) { shapes_[name] = shape; });
  }

  [[nodiscard]] bool has(std::string_view name) const override { return shapes_.count(std::string(name)) != 0; }
  [[nodiscard]] std::array<accrete::index_t, 2> shape(std::string_view name) const override {
    return shapes_.at(std::string(name));
  }
  void read_rows(std::string_view name, accrete::index_t first, accrete::view<float, 2> out) const override {
    accrete::random_stream const stream(seed_, name);
    auto const columns = shape(name)[1];
    double const mean = name.find("norm") == std::string_view::npos ? 0.0 : 1.0;
    for (accrete::index_t i = 0; i < out.rows(); ++i)
      for (accrete::index_t j = 0; j < columns; ++j)
        out(i, j) = float(mean + 0.4 * stream.normal(std::uint64_t((first + i) * columns + j)));
  }
  [[nodiscard]] std::string identity() const override {
    return "tiny" + std::to_string(seed_.value) + config.architecture +
           (config.tie_word_embeddings ? "t" : "u") + (config.qkv_bias ? "b" : "") +
           (config.output_bias ? "o" : "");
  }

 private:
  accrete::seed seed_;
  std::map<std::string, std::array<accrete::index_t, 2>> shapes_;
};

template <accrete::backend B>
accrete::teacher<B> tiny_teacher(tiny_shape const& shape = {}, B ctx = B()) {
  return accrete::teacher<B>(std::move(ctx), tiny_weights(shape), std::nullopt, 32);
}

inline std::vector<std::int32_t> random_document(accrete::index_t length, std::uint64_t number) {
  accrete::random_stream const stream(accrete::seed{5}, "document", number);
  std::vector<std::int32_t> ids;
  for (accrete::index_t i = 0; i < length; ++i)
    ids.push_back(std::int32_t(stream.below(std::uint64_t(i), std::uint64_t(tiny_vocabulary))));
  return ids;
}

using documents = std::vector<std::vector<std::int32_t>>;

inline accrete::data::ragged_batch batch_of(documents const& all) {
  accrete::data::ragged_batch b;
  for (auto const& d : all) b.append(d);
  return b;
}
/// Documents of these lengths; document number i is the same in every batch of at least as long a one.
inline documents random_documents(std::initializer_list<accrete::index_t> lengths) {
  documents all;
  for (auto length : lengths) all.push_back(random_document(length, all.size()));
  return all;
}
inline accrete::data::ragged_batch random_batch(std::initializer_list<accrete::index_t> lengths) {
  return batch_of(random_documents(lengths));
}

/// Every placement of the library.
using placements =
    std::tuple<accrete::placement::pre, accrete::placement::post, accrete::placement::peri,
               accrete::placement::peri_embedding, accrete::placement::olmo2, accrete::placement::deepnorm,
               accrete::placement::hybrid, accrete::placement::mix, accrete::placement::residual>;

}  // namespace test
