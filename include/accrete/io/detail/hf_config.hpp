#pragma once
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "accrete/core/error.hpp"
#include "accrete/core/view.hpp"
#include "accrete/io/detail/hf_rotary.hpp"
#include "accrete/io/json.hpp"
#include "accrete/io/message_text.hpp"
#include "accrete/io/model_config.hpp"
#include "accrete/io/placed_json.hpp"
#include "accrete/io/weight_source.hpp"

namespace accrete::inline v0::io::detail {

/// Reads a config.json. Sizes that Hugging Face's classes would fill in from defaults of their own are asked
/// for; only the documented ones of Llama and Qwen2 are followed (head_dim = hidden / heads; in Llama one key
/// head per query head).
class hf_config_reader {
 public:
  hf_config_reader(json const& root, std::string where) : root_{root, std::move(where), ": "} {}

  model_config read() {
    if (!root_.value.is_object()) throw io_error(root_.where, root_.value.describe(), "an object");
    model_config c;
    c.architecture = required("model_type").as_string();
    bool const llama = c.architecture == "llama";
    bool const qwen2 = c.architecture == "qwen2";
    bool const own = c.architecture == "accrete";  // as save_pretrained writes it
    if (!llama && !qwen2 && !own && c.architecture != "qwen3")
      throw io_error(root_.at("model_type").where, name_text(c.architecture), "'llama', 'qwen2' or 'qwen3'");
    c.qk_norm = c.architecture == "qwen3";
    if (own) read_wiring(c);
    c.hidden_size = size("hidden_size");
    c.num_hidden_layers = size("num_hidden_layers");
    c.num_attention_heads = size("num_attention_heads");
    c.num_key_value_heads = llama && root_.at("num_key_value_heads").is_null() ? c.num_attention_heads
                                                                               : size("num_key_value_heads");
    c.intermediate_size = size("intermediate_size");
    c.vocab_size = size("vocab_size");
    c.max_position_embeddings = size("max_position_embeddings");
    c.rms_norm_eps = required("rms_norm_eps").as_double();
    if ((llama || qwen2) && root_.at("head_dim").is_null()) {
      if (c.num_attention_heads == 0 || c.hidden_size % c.num_attention_heads != 0)
        throw io_error(root_.where, "no head_dim", "it, since hidden_size is not a multiple of the head count");
      c.head_dim = c.hidden_size / c.num_attention_heads;
    } else {
      c.head_dim = size("head_dim");
    }
    c.tie_word_embeddings = root_.flag("tie_word_embeddings");
    read_biases(c);
    c.bos_token_id = first_of(token_ids("bos_token_id"));
    c.eos_token_ids = token_ids("eos_token_id");
    c.eos_token_id = first_of(c.eos_token_ids);
    hf_rotary_reader(root_).read(c);
    refuse_others();
    require_consistent(c, root_.where);
    return c;
  }

  /// One id, or a list of them; none where the key is missing.
  [[nodiscard]] std::vector<std::int32_t> token_ids(std::string_view key) const {
    std::vector<std::int32_t> ids;
    auto const named = root_.at(key);
    auto const append = [&](json const& value) {
      index_t const id = value.as_index(named.where);
      if (id > 0x7FFFFFFF) throw io_error(named.where, std::to_string(id), "a token id below 2^31");
      ids.push_back(std::int32_t(id));
    };
    if (named.is_null()) return ids;
    if (!named.value.is_array())
      append(named.value);
    else
      for (json const& each : named.value.items()) append(each);
    return ids;
  }

 private:
  [[nodiscard]] placed_json required(char const* key) const {
    return root_.required(key, "it", "defaults differ between models, so none is taken");
  }
  [[nodiscard]] index_t size(char const* key) const { return required(key).as_index(); }
  [[nodiscard]] static std::int32_t first_of(std::vector<std::int32_t> const& ids) {
    return ids.empty() ? -1 : ids.front();
  }

  // Qwen2's q, k and v always have biases and its output has none; the key is for the other two, and for all
  // four.
  void read_biases(model_config& c) const {
    if (c.architecture == "accrete") {
      c.qkv_bias = root_.flag("qkv_bias");
      c.output_bias = root_.flag("output_bias");
      return;
    }
    auto const key = root_.at("attention_bias");
    bool const asked = !key.is_null() && key.as_bool();
    bool const qwen2 = c.architecture == "qwen2";
    if (qwen2 && !asked && !key.is_null())
      throw io_error(key.where, "false", "true or no such key",
                     "the q, k and v of a Qwen2 model always have biases");
    c.qkv_bias = asked || qwen2;
    c.output_bias = asked && !qwen2;
  }

  void read_wiring(model_config& c) const {
    auto const equation = required("layer_equation");
    c.layer_equation = equation.as_string();
    if (c.layer_equation.empty()) throw io_error(equation.where, "an empty string", "an equation");
    if (auto const wiring = root_.at("wiring"); !wiring.is_null()) c.wiring = wiring.as_string();
    c.placement = required("placement").as_string();
    auto const depth = required("final_depth");
    c.final_depth = depth.as_index();
    if (c.final_depth < 1 || c.final_depth > (index_t(1) << 30))
      throw io_error(depth.where, std::to_string(c.final_depth), "1 to 2^30");
    auto const strings = [&](char const* key) {
      auto const list = required(key);
      if (!list.value.is_array()) throw io_error(list.where, list.value.describe(), "an array of strings");
      std::vector<std::string> all;
      for (json const& each : list.value.items()) all.push_back(each.as_string(list.where));
      return all;
    };
    c.norms = strings("norms");
    for (auto const& name : strings("head_norms"))
      if (name == "q" || name == "k")
        c.qk_norm = true;
      else if (name == "v")
        c.v_norm = true;
      else
        throw io_error(root_.at("head_norms").where, name_text(name), "'q', 'k' or 'v'");
  }

  void refuse_others() const {
    for (char const* name : {"mlp_bias", "use_sliding_window", "use_mrope", "rope_interleaved"})
      if (root_.flag(name)) throw io_error(root_.at(name).where, "true", "false", "it is not implemented");
    if (auto const act = root_.at("hidden_act"); !act.is_null())  // two names of one function
      if (auto const& text = act.as_string(); text != "silu" && text != "swish")
        throw io_error(act.where, act.value.describe(), "'silu'");
    if (!root_.at("quantization_config").is_null())
      throw io_error(root_.where, "a quantization_config", "plain F32, F16 or BF16 weights");
    hf_rotary_reader(root_).require_whole_heads(root_);
    auto const kinds = root_.at("layer_types");
    for (json const& kind : kinds.value.items())
      if (kind.as_string(kinds.where) != "full_attention")
        throw io_error(kinds.where, kind.describe(), "'full_attention' in every layer");
  }

  placed_json root_;
};

[[nodiscard]] inline model_config read_hf_config(json const& root, std::string const& where) {
  return hf_config_reader(root, where).read();
}
/// generation_config.json may name more tokens that end a text than config.json does (Qwen3 and Llama 3 chat
/// models); config.json's come first.
inline void add_generation_config(model_config& c, json const& root, std::string const& where) {
  if (!root.is_object()) throw io_error(where, root.describe(), "an object");
  for (std::int32_t const id : hf_config_reader(root, where).token_ids("eos_token_id"))
    if (std::find(c.eos_token_ids.begin(), c.eos_token_ids.end(), id) == c.eos_token_ids.end())
      c.eos_token_ids.push_back(id);
  if (c.eos_token_id < 0 && !c.eos_token_ids.empty()) c.eos_token_id = c.eos_token_ids.front();
}

}  // namespace accrete::inline v0::io::detail
