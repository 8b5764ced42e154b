#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "accrete/core/error.hpp"
#include "accrete/io/json.hpp"
#include "accrete/io/mapped_file.hpp"
#include "accrete/io/model_config.hpp"
#include "accrete/io/weight_source.hpp"

namespace accrete::inline v0::io::detail {

[[nodiscard]] inline std::string_view text_of(mapped_file const& file) {
  return {reinterpret_cast<char const*>(file.bytes().data()), file.bytes().size()};
}

/// Reads a config.json. Sizes that Hugging Face's classes would fill in from defaults of their own are asked
/// for; only Llama's two documented ones (one key head per query head, head_dim = hidden / heads) are followed.
class hf_config_reader {
 public:
  hf_config_reader(json const& root, std::string where) : root_(root), where_(std::move(where)) {}

  model_config read() {
    if (!root_.is_object()) throw io_error(where_, root_.describe(), "an object");
    model_config c;
    c.architecture = required("model_type").as_string(at("model_type"));
    if (c.architecture != "llama" && c.architecture != "qwen3")
      throw io_error(at("model_type"), name_text(c.architecture), "'llama' or 'qwen3'");
    bool const llama = c.architecture == "llama";
    c.qk_norm = !llama;
    c.hidden_size = size("hidden_size");
    c.num_hidden_layers = size("num_hidden_layers");
    c.num_attention_heads = size("num_attention_heads");
    c.num_key_value_heads =
        llama && given("num_key_value_heads") == nullptr ? c.num_attention_heads : size("num_key_value_heads");
    c.intermediate_size = size("intermediate_size");
    c.vocab_size = size("vocab_size");
    c.max_position_embeddings = size("max_position_embeddings");
    c.rms_norm_eps = required("rms_norm_eps").as_double(at("rms_norm_eps"));
    if (llama && given("head_dim") == nullptr) {
      if (c.num_attention_heads == 0 || c.hidden_size % c.num_attention_heads != 0)
        throw io_error(where_, "no head_dim", "it, since hidden_size is not a multiple of the head count");
      c.head_dim = c.hidden_size / c.num_attention_heads;
    } else {
      c.head_dim = size("head_dim");
    }
    json const* const tied = given("tie_word_embeddings");
    c.tie_word_embeddings = tied != nullptr && tied->as_bool(at("tie_word_embeddings"));
    c.bos_token_id = token("bos_token_id");
    c.eos_token_id = token("eos_token_id");
    c.rope_theta = rope_theta();
    refuse_others();
    require_consistent(c, where_);
    return c;
  }

 private:
  [[nodiscard]] std::string at(std::string const& key) const { return where_ + ": " + key; }
  /// The member, unless it is missing or null.
  [[nodiscard]] json const* given(std::string_view key) const {
    json const* const found = root_.find(key);
    return found == nullptr || found->is_null() ? nullptr : found;
  }
  [[nodiscard]] json const& required(std::string const& key) const {
    json const* const found = given(key);
    if (found == nullptr)
      throw io_error(where_, "no " + key, "it", "defaults differ between models, so none is taken");
    return *found;
  }
  [[nodiscard]] index_t size(std::string const& key) const { return required(key).as_index(at(key)); }

  // One id, or a list of which the first counts.
  [[nodiscard]] std::int32_t token(std::string const& key) const {
    json const* value = given(key);
    if (value != nullptr && value->is_array())
      value = value->items().empty() ? nullptr : &value->items().front();
    if (value == nullptr) return -1;
    index_t const id = value->as_index(at(key));
    if (id > 0x7FFFFFFF) throw io_error(at(key), std::to_string(id), "a token id below 2^31");
    return std::int32_t(id);
  }

  // Newer files keep it in rope_parameters, older ones at the top. Taking 10,000 when neither has it is the
  // commonest silent fault of readers of these files.
  [[nodiscard]] double rope_theta() const {
    for (char const* place : {"rope_parameters", "rope_scaling"})
      if (json const* const rope = given(place)) require_plain_rope(*rope, place);
    json const* theta = nullptr;
    if (json const* const rope = given("rope_parameters")) theta = rope->find("rope_theta");
    if (theta == nullptr || theta->is_null()) theta = given("rope_theta");
    if (theta == nullptr) throw io_error(where_, "no rope_theta", "it, in rope_parameters or at the top");
    return theta->as_double(at("rope_theta"));
  }
  void require_plain_rope(json const& rope, std::string const& place) const {
    if (!rope.is_object()) throw io_error(at(place), rope.describe(), "an object or null");
    for (char const* name : {"rope_type", "type"})
      if (json const* const kind = rope.find(name); kind != nullptr && !kind->is_null())
        if (auto const& text = kind->as_string(at(place) + "." + name); text != "default")
          throw io_error(at(place), name_text(text), "null or 'default'",
                         "scaled rotary embedding is not implemented");
    json const* const factor = rope.find("factor");
    if (factor != nullptr && !factor->is_null() && factor->as_double(at(place) + ".factor") != 1.0)
      throw io_error(at(place), "factor " + factor->describe(), "none",
                     "scaled rotary embedding is not implemented");
    refuse_partial(rope.find("partial_rotary_factor"));
  }
  void refuse_partial(json const* part) const {
    if (part != nullptr && !part->is_null() && part->as_double(at("partial_rotary_factor")) != 1.0)
      throw io_error(at("partial_rotary_factor"), part->describe(), "1", "heads are rotated whole");
  }

  void refuse_others() const {
    for (char const* flag : {"attention_bias", "mlp_bias", "use_sliding_window"})
      if (json const* const value = given(flag); value != nullptr && value->as_bool(at(flag)))
        throw io_error(at(flag), "true", "false", "it is not implemented");
    if (json const* const act = given("hidden_act");
        act != nullptr && act->as_string(at("hidden_act")) != "silu")
      throw io_error(at("hidden_act"), act->describe(), "'silu'");
    if (given("quantization_config") != nullptr)
      throw io_error(where_, "a quantization_config", "plain F32, F16 or BF16 weights");
    refuse_partial(given("partial_rotary_factor"));
    if (json const* const kinds = given("layer_types"))
      for (json const& kind : kinds->items())
        if (kind.as_string(at("layer_types")) != "full_attention")
          throw io_error(at("layer_types"), kind.describe(), "'full_attention' in every layer");
  }

  json const& root_;
  std::string where_;
};

[[nodiscard]] inline model_config read_hf_config(json const& root, std::string const& where) {
  return hf_config_reader(root, where).read();
}

}  // namespace accrete::inline v0::io::detail
