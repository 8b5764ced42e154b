#pragma once
#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "accrete/core/error.hpp"
#include "accrete/core/view.hpp"
#include "accrete/io/content_hash.hpp"
#include "accrete/io/dequantize.hpp"
#include "accrete/io/detail/rows.hpp"
#include "accrete/io/gguf.hpp"
#include "accrete/io/message_text.hpp"
#include "accrete/io/weight_source.hpp"

namespace accrete::inline v0::io {

/// Llama and Qwen3 models in GGUF. What these architectures can say and the library does not compute (scaled
/// rotary embedding, experts, biases, sliding windows) is refused by name, never skipped.
class gguf_weights final : public weight_source {
 public:
  explicit gguf_weights(std::filesystem::path path) : gguf_weights(gguf_file(std::move(path))) {}
  explicit gguf_weights(gguf_file file) : file_(std::move(file)) {
    read_config();
    index_tensors();
  }

  [[nodiscard]] gguf_file const& file() const { return file_; }  ///< for the tokenizer, which is in it as well

  [[nodiscard]] bool has(std::string_view hf_name) const override { return tensors_.count(hf_name) != 0; }
  [[nodiscard]] std::array<index_t, 2> shape(std::string_view hf_name) const override {
    gguf_tensor const& t = find(hf_name);
    return {t.rows(), t.columns()};
  }
  void read_rows(std::string_view hf_name, index_t first_row, view<float, 2> out) const override {
    gguf_tensor const& t = find(hf_name);
    if (!interleaved(hf_name)) {
      dequantize_rows(t, first_row, out);
    } else {
      detail::require_rows(file_.where() + ": tensor " + name_text(t.name), t.rows(), t.columns(), first_row,
                           out);
      for (index_t r = 0; r < out.rows(); ++r) dequantize_rows(t, stored_row(first_row + r), out.slice(r, 1));
    }
    detail::require_finite(file_.where() + ": tensor " + name_text(t.name), first_row, out);
  }
  [[nodiscard]] std::string identity() const override {
    content_hash hash;
    add_file(hash, file_.map());
    return hash.hex();
  }

 private:
  // Converters store the query and key rows of Llama (not of Qwen3) so that neighbours 2i and 2i + 1 of a head
  // are turned together; here the pair is (i, i + head_dim / 2).
  [[nodiscard]] bool interleaved(std::string_view hf_name) const {
    return config.architecture == "llama" &&
           (hf_name.ends_with("self_attn.q_proj.weight") || hf_name.ends_with("self_attn.k_proj.weight"));
  }
  [[nodiscard]] index_t stored_row(index_t row) const {
    index_t const in_head = row % config.head_dim;
    index_t const half = config.head_dim / 2;
    return row - in_head + (in_head < half ? 2 * in_head : 2 * (in_head - half) + 1);
  }

  void read_config() {
    auto const arch = file_.get<std::string_view>("general.architecture");
    if (arch != "llama" && arch != "qwen3")
      throw io_error(file_.where() + ": key 'general.architecture'", name_text(arch), "'llama' or 'qwen3'");
    std::string const a(arch);
    auto const key = [&](char const* rest) { return a + "." + rest; };
    auto const size = [&](char const* rest) { return file_.get<index_t>(key(rest)); };

    config.architecture = a;
    config.qk_norm = a == "qwen3";
    config.hidden_size = size("embedding_length");
    config.num_hidden_layers = size("block_count");
    config.num_attention_heads = size("attention.head_count");
    config.num_key_value_heads = file_.get<index_t>(key("attention.head_count_kv"), config.num_attention_heads);
    config.intermediate_size = size("feed_forward_length");
    config.max_position_embeddings = size("context_length");
    config.rms_norm_eps = file_.get<double>(key("attention.layer_norm_rms_epsilon"));
    config.rope_theta = file_.get<double>(key("rope.freq_base"));
    config.vocab_size = file_.tensor("token_embd.weight").rows();
    config.tie_word_embeddings = file_.find_tensor("output.weight") == nullptr;
    config.bos_token_id = file_.get<std::int32_t>("tokenizer.ggml.bos_token_id", -1);
    config.eos_token_id = file_.get<std::int32_t>("tokenizer.ggml.eos_token_id", -1);

    if (file_.has(key("attention.key_length"))) {
      config.head_dim = size("attention.key_length");
    } else {  // the format's own default, which only models with heads * head_dim = hidden may use
      if (config.num_attention_heads < 1 || config.hidden_size % config.num_attention_heads != 0)
        throw io_error(file_.where(), "no key " + name_text(key("attention.key_length")),
                       "it, since hidden_size is not a multiple of the head count");
      config.head_dim = config.hidden_size / config.num_attention_heads;
    }
    detail::require_consistent(config, file_.where());

    require_equal(key("attention.value_length"), config.head_dim, "as long as the keys");
    require_equal(key("rope.dimension_count"), config.head_dim, "the whole head rotated");
    require_equal(key("vocab_size"), config.vocab_size, "the embedding's rows");
    require_equal(key("expert_count"), 0, "no experts");
    require_equal(key("attention.sliding_window"), 0, "attention over the whole document");
    auto const scaling = file_.get<std::string_view>(key("rope.scaling.type"), "none");
    if (scaling != "none")
      throw io_error(file_.where() + ": key " + name_text(key("rope.scaling.type")), name_text(scaling),
                     "'none'", "scaled rotary embedding is not implemented");
    for (char const* factor : {"rope.scaling.factor", "rope.scale_linear"})
      if (auto const value = file_.get<double>(key(factor), 1.0); value != 1.0 && value != 0.0)
        throw io_error(file_.where() + ": key " + name_text(key(factor)), std::to_string(value), "1",
                       "scaled rotary embedding is not implemented");
  }

  void require_equal(std::string const& key, index_t want, char const* why) const {
    auto const got = file_.get<index_t>(key, want);
    if (got != want)
      throw io_error(file_.where() + ": key " + name_text(key), std::to_string(got),
                     std::to_string(want) + ", " + why);
  }

  void index_tensors() {
    std::set<std::string_view> known;
    detail::for_each_tensor(config, [&](std::string const& hf_name, std::array<index_t, 2> const& want) {
      gguf_tensor const& t = file_.tensor(stored_name(hf_name));
      std::array<index_t, 2> const got{t.rows(), t.columns()};
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
    constexpr std::array<std::pair<std::string_view, char const*>, 11> parts{{
        {"input_layernorm.weight", "attn_norm.weight"},
        {"self_attn.q_proj.weight", "attn_q.weight"},
        {"self_attn.k_proj.weight", "attn_k.weight"},
        {"self_attn.v_proj.weight", "attn_v.weight"},
        {"self_attn.o_proj.weight", "attn_output.weight"},
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
