#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "accrete/core/error.hpp"
#include "accrete/core/view.hpp"
#include "accrete/io/content_hash.hpp"
#include "accrete/io/dequantize.hpp"
#include "accrete/io/detail/gguf_config.hpp"
#include "accrete/io/detail/rows.hpp"
#include "accrete/io/gguf.hpp"
#include "accrete/io/message_text.hpp"
#include "accrete/io/weight_source.hpp"

namespace accrete::inline v0::io {

/// Llama, Qwen2 and Qwen3 models in GGUF. What these architectures can say and the library does not compute
/// (other scalings of the rotation than Llama 3's, experts, sliding windows) is refused by name, never skipped.
/// The file is mapped: a row is decoded where it lies when it is asked for.
class gguf_weights final : public weight_source {
 public:
  explicit gguf_weights(std::filesystem::path path) : gguf_weights(gguf_file(std::move(path))) {}
  explicit gguf_weights(gguf_file file) : file_(std::move(file)) {
    config = detail::gguf_config_reader(file_).read();
    index_tensors();
  }

  [[nodiscard]] gguf_file const& file() const { return file_; }  ///< for the tokenizer, which is in it as well

  [[nodiscard]] bool has(std::string_view hf_name) const override { return tensors_.count(hf_name) != 0; }
  [[nodiscard]] tensor_shape shape(std::string_view hf_name) const override {
    gguf_tensor const& t = find(hf_name);
    return {t.rows(), t.columns()};
  }
  void read_rows(std::string_view hf_name, index_t first_row, view<float, 2> out) const override {
    gguf_tensor const& t = find(hf_name);
    auto const here = [&] { return file_.where() + ": tensor " + name_text(t.name); };
    detail::require_rows(here, t.rows(), t.columns(), first_row, out);
    bool const half_split_needed = interleaved(hf_name);
    if (!half_split_needed || t.rows() == 1) {
      dequantize_rows(t, first_row, out);
      if (half_split_needed && out.rows() == 1) split_halves(out.row(0), out.columns());
    } else {
      for (index_t r = 0; r < out.rows(); ++r) dequantize_rows(t, stored_place(first_row + r), out.slice(r, 1));
    }
    detail::require_finite(here, first_row, out);
  }
  [[nodiscard]] std::string identity() const override {
    content_hash hash;
    add_file(hash, file_.map());
    return hash.hex();
  }

 private:
  // Converters store the query and key rows of Llama (not of Qwen) so that neighbours 2i and 2i + 1 of a head
  // are turned together; here the pair is (i, i + head_dim / 2). The numbers of their biases likewise.
  [[nodiscard]] bool interleaved(std::string_view hf_name) const {
    if (config.architecture != "llama") return false;
    for (char const* name : {"self_attn.q_proj.weight", "self_attn.k_proj.weight", "self_attn.q_proj.bias",
                             "self_attn.k_proj.bias"})
      if (hf_name.ends_with(name)) return true;
    return false;
  }
  [[nodiscard]] index_t stored_place(index_t place) const {
    index_t const in_head = place % config.head_dim;
    index_t const half = config.head_dim / 2;
    return place - in_head + (in_head < half ? 2 * in_head : 2 * (in_head - half) + 1);
  }
  void split_halves(float* values, index_t count) const {
    std::vector<float> head(std::size_t(config.head_dim));
    for (index_t first = 0; first < count; first += config.head_dim) {
      for (index_t i = 0; i < config.head_dim; ++i) head[std::size_t(i)] = values[stored_place(first + i)];
      std::copy(head.begin(), head.end(), values + first);
    }
  }

  void index_tensors() {
    std::set<std::string_view> known{"rope_freqs.weight"};  // read already
    detail::for_each_tensor(config, [&](std::string const& hf_name, tensor_shape const& want) {
      gguf_tensor const& t = file_.tensor(stored_name(hf_name));
      tensor_shape const got{t.rows(), t.columns()};
      if (got != want || t.shape.size() > 2)
        throw io_error(file_.where() + ": tensor " + name_text(t.name), "shape " + shape_text(got),
                       shape_text(want) + " from the file's keys");
      require_dequantizable(t, file_.where());
      known.insert(t.name);
      tensors_.emplace(hf_name, &t);
    });
    for (gguf_tensor const& t : file_.tensors())
      if (known.count(t.name) == 0)
        throw io_error(file_.where(), "a tensor " + name_text(t.name),
                       "only what a plain " + config.architecture + " model has",
                       "leaving it out would change the model");
  }

  [[nodiscard]] static std::string stored_name(std::string_view hf_name) {
    if (hf_name == "model.embed_tokens.weight") return "token_embd.weight";
    if (hf_name == "model.norm.weight") return "output_norm.weight";
    if (hf_name == "lm_head.weight") return "output.weight";
    constexpr std::array<std::pair<std::string_view, char const*>, 15> parts{{
        {"input_layernorm.weight", "attn_norm.weight"},
        {"self_attn.q_proj.weight", "attn_q.weight"},
        {"self_attn.k_proj.weight", "attn_k.weight"},
        {"self_attn.v_proj.weight", "attn_v.weight"},
        {"self_attn.o_proj.weight", "attn_output.weight"},
        {"self_attn.q_proj.bias", "attn_q.bias"},
        {"self_attn.k_proj.bias", "attn_k.bias"},
        {"self_attn.v_proj.bias", "attn_v.bias"},
        {"self_attn.o_proj.bias", "attn_output.bias"},
        {"self_attn.q_norm.weight", "attn_q_norm.weight"},
        {"self_attn.k_norm.weight", "attn_k_norm.weight"},
        {"post_attention_layernorm.weight", "ffn_norm.weight"},
        {"mlp.gate_proj.weight", "ffn_gate.weight"},
        {"mlp.up_proj.weight", "ffn_up.weight"},
        {"mlp.down_proj.weight", "ffn_down.weight"},
    }};
    hf_name.remove_prefix(std::string_view("model.layers.").size());
    auto const dot = hf_name.find('.');
    for (auto const& [hf, gguf] : parts)
      if (hf_name.substr(dot + 1) == hf) return "blk." + std::string(hf_name.substr(0, dot)) + "." + gguf;
    return std::string(hf_name);
  }

  [[nodiscard]] gguf_tensor const& find(std::string_view hf_name) const {
    auto const at = tensors_.find(hf_name);
    if (at == tensors_.end())
      throw io_error(file_.where(), "no weight " + name_text(hf_name),
                     "a weight of a " + config.architecture + " model of " +
                         std::to_string(config.num_hidden_layers) + " layers");
    return *at->second;
  }

  gguf_file file_;
  std::map<std::string, gguf_tensor const*, std::less<>> tensors_;  // by Hugging Face's name
};

}  // namespace accrete::inline v0::io
