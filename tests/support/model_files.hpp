#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "accrete/core/rng.hpp"
#include "accrete/io/model_config.hpp"
#include "accrete/io/safetensors_writer.hpp"
#include "accrete/io/weight_source.hpp"
#include "support/files.hpp"
#include "support/gguf_builder.hpp"

/// Whole models on disk, as the programs that make such files write them.
namespace test {

/// A model in memory: its config and, under Hugging Face's names, its weights. Matrices at deviation 0.4, gains
/// around 1, biases around 0; all are small multiples of 1/64, which every number format of the files holds.
struct model_in_memory {
  accrete::io::model_config config;
  std::map<std::string, std::vector<float>> weights;
  std::map<std::string, std::array<accrete::index_t, 2>> shapes;

  explicit model_in_memory(accrete::io::model_config c, accrete::seed s = {17}) : config(std::move(c)) {
    accrete::io::detail::for_each_tensor(config, [&](std::string const& name, auto shape) {
      accrete::random_stream const stream(s, name);
      double const mean = name.find("norm") == std::string::npos ? 0.0 : 1.0;
      std::vector<float> values(std::size_t(shape[0] * shape[1]));
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = float(mean + std::round(std::clamp(0.4 * stream.normal(i), -0.9, 0.9) * 64) / 64);
      weights[name] = std::move(values);
      shapes[name] = shape;
    });
  }
};

/// Sizes that no two of are equal where a mix-up could hide.
inline accrete::io::model_config small_config(std::string architecture) {
  accrete::io::model_config c;
  c.architecture = std::move(architecture);
  c.hidden_size = 16;
  c.num_hidden_layers = 2;
  c.num_attention_heads = 2;
  c.num_key_value_heads = 1;
  c.head_dim = 8;
  c.intermediate_size = 10;
  c.vocab_size = 23;
  c.max_position_embeddings = 64;
  c.rms_norm_eps = 0x1p-17;
  c.rope_theta = 5e5;
  c.qk_norm = c.architecture == "qwen3";
  c.qkv_bias = c.architecture == "qwen2";
  return c;
}

/// `values` in a number format of safetensors: F32, F16 or BF16, which must hold them exactly.
inline std::string stored_as(accrete::io::safetensors_dtype dtype, std::vector<float> const& values) {
  using enum accrete::io::safetensors_dtype;
  if (dtype == f32) return bytes_of(values);
  std::vector<std::uint16_t> out;
  for (float const v : values) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &v, 4);
    std::uint32_t const sign = bits >> 16 & 0x8000u;
    std::uint32_t const half = v == 0 ? 0 : ((bits >> 23 & 0xFFu) - 112) << 10 | (bits >> 13 & 0x3FFu);
    out.push_back(std::uint16_t(dtype == bf16 ? bits >> 16 : sign | half));
  }
  return bytes_of(out);
}

struct hf_options {
  bool newer_rope = false;  ///< rope_parameters instead of rope_theta and rope_scaling
  int shards = 1;
  std::string prefix = "model.";  ///< "" as of a model that was saved without its head
};

inline std::string config_json(accrete::io::model_config const& c, hf_options const& o = {}) {
  auto const member = [](std::string const& name, std::string const& value) {
    return ", \"" + name + "\": " + value;
  };
  std::string text = "{\"model_type\": \"" + c.architecture + "\"" +
                     member("hidden_size", std::to_string(c.hidden_size)) +
                     member("num_hidden_layers", std::to_string(c.num_hidden_layers)) +
                     member("num_attention_heads", std::to_string(c.num_attention_heads)) +
                     member("num_key_value_heads", std::to_string(c.num_key_value_heads)) +
                     member("intermediate_size", std::to_string(c.intermediate_size)) +
                     member("vocab_size", std::to_string(c.vocab_size)) +
                     member("max_position_embeddings", std::to_string(c.max_position_embeddings)) +
                     member("rms_norm_eps", "7.62939453125e-06") + member("hidden_act", "\"silu\"") +
                     member("tie_word_embeddings", c.tie_word_embeddings ? "true" : "false");
  if (c.architecture == "qwen3") text += member("head_dim", std::to_string(c.head_dim));
  if (c.architecture != "qwen2") text += member("attention_bias", c.output_bias ? "true" : "false");
  std::string const theta = member("rope_theta", std::to_string(c.rope_theta));
  std::string scaling;
  if (c.rotary.kind == accrete::io::rotary_kind::llama3)
    scaling =
        member("factor", std::to_string(c.rotary.factor)) +
        member("low_freq_factor", std::to_string(c.rotary.low_freq_factor)) +
        member("high_freq_factor", std::to_string(c.rotary.high_freq_factor)) +
        member("original_max_position_embeddings", std::to_string(c.rotary.original_max_position_embeddings)) +
        ", \"rope_type\": \"llama3\"";
  else if (o.newer_rope)
    scaling = ", \"rope_type\": \"default\"";
  if (o.newer_rope)
    text += member("rope_parameters", "{" + (theta + scaling).substr(2) + "}");
  else
    text += theta + member("rope_scaling", scaling.empty() ? "null" : "{" + scaling.substr(2) + "}");
  return text + "}";
}

/// A directory as `save_pretrained` writes it. Tensors take turns in F32, BF16 and F16.
inline std::filesystem::path save_hf(std::filesystem::path const& folder, model_in_memory const& m,
                                     hf_options const& o = {}) {
  using accrete::io::safetensors_dtype;
  std::filesystem::create_directories(folder);
  write_file(folder / "config.json", config_json(m.config, o));
  auto const file_of = [&](int shard) {
    return o.shards == 1 ? std::string("model.safetensors")
                         : "model-0000" + std::to_string(shard + 1) + ".safetensors";
  };
  constexpr std::array dtypes{safetensors_dtype::bf16, safetensors_dtype::f32, safetensors_dtype::f16};
  std::string index;
  for (int shard = 0; shard < o.shards; ++shard) {
    accrete::io::safetensors_writer out(folder / file_of(shard));
    std::vector<std::pair<std::string, std::string>> data;
    int number = 0;
    for (auto const& [name, values] : m.weights) {
      if (number++ % o.shards != shard) continue;
      auto const dtype = dtypes[std::size_t(number) % 3];
      auto const shape = m.shapes.at(name);
      std::string stored = name;
      if (name.rfind("model.", 0) == 0) stored = o.prefix + name.substr(6);
      std::vector<accrete::index_t> dimensions{shape[0], shape[1]};
      if (name.find("norm") != std::string::npos || name.ends_with(".bias")) dimensions = {shape[1]};
      out.declare(stored, dtype, dimensions);
      data.emplace_back(stored, stored_as(dtype, values));
      index += (index.empty() ? "\"" : ", \"") + stored + "\": \"" + file_of(shard) + "\"";
    }
    for (auto const& [name, bytes] : data)
      out.append(name, std::as_bytes(std::span(bytes.data(), bytes.size())));
    out.commit();
  }
  if (o.shards > 1) write_file(folder / "model.safetensors.index.json", "{\"weight_map\": {" + index + "}}");
  return folder;
}

/// A GGUF file as llama.cpp's converter writes it: the rows (and bias numbers) of Llama's queries and keys go
/// from halves to neighbours. `divisors` becomes rope_freqs.weight.
inline gguf_builder gguf_of(model_in_memory const& m, std::vector<float> const& divisors = {}) {
  auto const& c = m.config;
  std::string const& a = c.architecture;
  gguf_builder b;
  b.string("general.architecture", a);
  auto const size = [&](char const* key, accrete::index_t v) { b.u32(a + "." + key, std::uint32_t(v)); };
  size("block_count", c.num_hidden_layers);
  size("context_length", c.max_position_embeddings);
  size("embedding_length", c.hidden_size);
  size("feed_forward_length", c.intermediate_size);
  size("attention.head_count", c.num_attention_heads);
  size("attention.head_count_kv", c.num_key_value_heads);
  if (a == "qwen3") size("attention.key_length", c.head_dim);
  b.f32(a + ".rope.freq_base", float(c.rope_theta));
  b.f32(a + ".attention.layer_norm_rms_epsilon", float(c.rms_norm_eps));
  std::map<std::string, std::string> const parts{
      {"input_layernorm", "attn_norm"},    {"self_attn.q_proj", "attn_q"},
      {"self_attn.k_proj", "attn_k"},      {"self_attn.v_proj", "attn_v"},
      {"self_attn.o_proj", "attn_output"}, {"self_attn.q_norm", "attn_q_norm"},
      {"self_attn.k_norm", "attn_k_norm"}, {"post_attention_layernorm", "ffn_norm"},
      {"mlp.gate_proj", "ffn_gate"},       {"mlp.up_proj", "ffn_up"},
      {"mlp.down_proj", "ffn_down"}};
  for (auto const& [name, given] : m.weights) {
    auto const shape = m.shapes.at(name);
    bool const is_row = name.find("norm") != std::string::npos || name.ends_with(".bias");
    auto values = given;
    if (a == "llama" &&
        (name.find("q_proj") != std::string::npos || name.find("k_proj") != std::string::npos)) {
      auto const width = std::size_t(is_row ? 1 : shape[1]);
      auto const dh = std::size_t(c.head_dim);
      for (std::size_t row = 0; row * width < given.size(); ++row) {
        std::size_t const in_head = row % dh;
        std::size_t const to = row - in_head + in_head % (dh / 2) * 2 + in_head / (dh / 2);
        std::copy_n(given.begin() + std::ptrdiff_t(row * width), width,
                    values.begin() + std::ptrdiff_t(to * width));
      }
    }
    std::string stored = name == "model.embed_tokens.weight" ? "token_embd.weight"
                         : name == "model.norm.weight"       ? "output_norm.weight"
                         : name == "lm_head.weight"          ? "output.weight"
                                                             : "";
    if (stored.empty()) {
      auto const layer = name.find('.', 13), end = name.rfind('.');
      stored = "blk." + name.substr(13, layer - 13) + "." + parts.at(name.substr(layer + 1, end - layer - 1)) +
               name.substr(end);
    }
    std::vector<std::uint64_t> dimensions{std::uint64_t(shape[1])};
    if (!is_row) dimensions.push_back(std::uint64_t(shape[0]));
    bool const narrow = !is_row && name.find("mlp") != std::string::npos;  // matrices of the MLP: F16
    b.tensor(
        stored, narrow ? 1 : 0, dimensions,
        stored_as(narrow ? accrete::io::safetensors_dtype::f16 : accrete::io::safetensors_dtype::f32, values));
  }
  if (!divisors.empty()) b.tensor("rope_freqs.weight", 0, {std::uint64_t(divisors.size())}, bytes_of(divisors));
  return b;
}

}  // namespace test
