#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "accrete/core/error.hpp"
#include "accrete/io/json.hpp"
#include "accrete/io/mapped_file.hpp"
#include "accrete/io/message_text.hpp"
#include "accrete/io/model_config.hpp"
#include "accrete/io/rotary_scaling.hpp"
#include "accrete/io/weight_source.hpp"

namespace accrete::inline v0::io::detail {

[[nodiscard]] inline std::string_view text_of(mapped_file const& file) {
  return {reinterpret_cast<char const*>(file.bytes().data()), file.bytes().size()};
}

/// Reads a config.json. Sizes that Hugging Face's classes would fill in from defaults of their own are asked
/// for; only the documented ones of Llama and Qwen2 are followed (head_dim = hidden / heads; in Llama one key
/// head per query head).
class hf_config_reader {
 public:
  hf_config_reader(json const& root, std::string where) : root_(root), where_(std::move(where)) {}

  model_config read() {
    if (!root_.is_object()) throw io_error(where_, root_.describe(), "an object");
    model_config c;
    c.architecture = required("model_type").as_string(at("model_type"));
    bool const llama = c.architecture == "llama";
    bool const qwen2 = c.architecture == "qwen2";
    bool const own = c.architecture == "accrete";  // as save_pretrained writes it
    if (!llama && !qwen2 && !own && c.architecture != "qwen3")
      throw io_error(at("model_type"), name_text(c.architecture), "'llama', 'qwen2' or 'qwen3'");
    c.qk_norm = c.architecture == "qwen3";
    if (own) read_wiring(c);
    c.hidden_size = size("hidden_size");
    c.num_hidden_layers = size("num_hidden_layers");
    c.num_attention_heads = size("num_attention_heads");
    c.num_key_value_heads =
        llama && given("num_key_value_heads") == nullptr ? c.num_attention_heads : size("num_key_value_heads");
    c.intermediate_size = size("intermediate_size");
    c.vocab_size = size("vocab_size");
    c.max_position_embeddings = size("max_position_embeddings");
    c.rms_norm_eps = required("rms_norm_eps").as_double(at("rms_norm_eps"));
    if ((llama || qwen2) && given("head_dim") == nullptr) {
      if (c.num_attention_heads == 0 || c.hidden_size % c.num_attention_heads != 0)
        throw io_error(where_, "no head_dim", "it, since hidden_size is not a multiple of the head count");
      c.head_dim = c.hidden_size / c.num_attention_heads;
    } else {
      c.head_dim = size("head_dim");
    }
    c.tie_word_embeddings = flag("tie_word_embeddings");
    read_biases(c);
    c.bos_token_id = first_of(token_ids("bos_token_id"));
    c.eos_token_ids = token_ids("eos_token_id");
    c.eos_token_id = first_of(c.eos_token_ids);
    read_rotary(c);
    refuse_others();
    require_consistent(c, where_);
    return c;
  }

  /// One id, or a list of them; none where the key is missing.
  [[nodiscard]] std::vector<std::int32_t> token_ids(std::string const& key) const {
    std::vector<std::int32_t> ids;
    auto const append = [&](json const& value) {
      index_t const id = value.as_index(at(key));
      if (id > 0x7FFFFFFF) throw io_error(at(key), std::to_string(id), "a token id below 2^31");
      ids.push_back(std::int32_t(id));
    };
    json const* const value = given(key);
    if (value == nullptr) return ids;
    if (!value->is_array())
      append(*value);
    else
      for (json const& each : value->items()) append(each);
    return ids;
  }

 private:
  [[nodiscard]] std::string at(std::string const& key) const { return where_ + ": " + key; }
  /// The member, unless it is missing or null.
  [[nodiscard]] static json const* given(json const& object, std::string_view key) {
    json const* const found = object.find(key);
    return found == nullptr || found->is_null() ? nullptr : found;
  }
  [[nodiscard]] json const* given(std::string_view key) const { return given(root_, key); }
  [[nodiscard]] json const& required(std::string const& key) const {
    json const* const found = given(key);
    if (found == nullptr)
      throw io_error(where_, "no " + key, "it", "defaults differ between models, so none is taken");
    return *found;
  }
  [[nodiscard]] index_t size(std::string const& key) const { return required(key).as_index(at(key)); }
  [[nodiscard]] bool flag(std::string const& key) const {
    json const* const value = given(key);
    return value != nullptr && value->as_bool(at(key));
  }
  [[nodiscard]] static std::int32_t first_of(std::vector<std::int32_t> const& ids) {
    return ids.empty() ? -1 : ids.front();
  }

  // Qwen2's q, k and v always have biases and its output has none; the key is for the other two, and for all
  // four.
  void read_biases(model_config& c) const {
    if (c.architecture == "accrete") {
      c.qkv_bias = flag("qkv_bias");
      c.output_bias = flag("output_bias");
      return;
    }
    bool const asked = flag("attention_bias");
    bool const qwen2 = c.architecture == "qwen2";
    if (qwen2 && !asked && given("attention_bias") != nullptr)
      throw io_error(at("attention_bias"), "false", "true or no such key",
                     "the q, k and v of a Qwen2 model always have biases");
    c.qkv_bias = asked || qwen2;
    c.output_bias = asked && !qwen2;
  }

  void read_wiring(model_config& c) const {
    c.layer_equation = required("layer_equation").as_string(at("layer_equation"));
    if (c.layer_equation.empty()) throw io_error(at("layer_equation"), "an empty string", "an equation");
    if (json const* const wiring = given("wiring")) c.wiring = wiring->as_string(at("wiring"));
    c.placement = required("placement").as_string(at("placement"));
    c.final_depth = size("final_depth");
    if (c.final_depth < 1 || c.final_depth > (index_t(1) << 30))
      throw io_error(at("final_depth"), std::to_string(c.final_depth), "1 to 2^30");
    auto const strings = [&](char const* key) {
      json const& list = required(key);
      if (!list.is_array()) throw io_error(at(key), list.describe(), "an array of strings");
      std::vector<std::string> all;
      for (json const& each : list.items()) all.push_back(each.as_string(at(key)));
      return all;
    };
    c.norms = strings("norms");
    for (auto const& name : strings("head_norms"))
      if (name == "q" || name == "k")
        c.qk_norm = true;
      else if (name == "v")
        c.v_norm = true;
      else
        throw io_error(at("head_norms"), name_text(name), "'q', 'k' or 'v'");
  }

  // Newer files keep everything in rope_parameters, older ones theta at the top and the rest in rope_scaling.
  // Taking 10,000 when no place has it, or leaving a scaling out, are the commonest silent faults of readers of
  // these files.
  void read_rotary(model_config& c) const {
    json const* const parameters = given(c.architecture == "accrete" ? "rotary" : "rope_parameters");
    json const* const scaling = given("rope_scaling");
    if (parameters != nullptr) c.rotary = scaling_in(*parameters, "rope_parameters");
    if (scaling != nullptr) {
      auto const older = scaling_in(*scaling, "rope_scaling");
      if (parameters != nullptr && !(older == c.rotary))
        throw io_error(where_, "rope_parameters and rope_scaling that differ",
                       "one of them, or the same in both");
      c.rotary = older;
    }
    json const* theta = parameters == nullptr ? nullptr : given(*parameters, "rope_theta");
    if (theta == nullptr && scaling != nullptr) theta = given(*scaling, "rope_theta");
    if (theta == nullptr) theta = given("rope_theta");
    if (theta == nullptr)
      throw io_error(where_, "no rope_theta", "it, in rope_parameters or at the top",
                     "no base is made up; the first Llama models mean 10000.0, which has to be written there");
    c.rope_theta = theta->as_double(at("rope_theta"));
  }

  [[nodiscard]] rotary_scaling scaling_in(json const& rope, std::string const& place) const {
    if (!rope.is_object()) throw io_error(at(place), rope.describe(), "an object or null");
    std::string const kind = kind_of(rope, place);
    for (json const& each : rope.items()) {
      constexpr std::array<std::string_view, 8> known{"rope_type",       "type",
                                                      "rope_theta",      "original_max_position_embeddings",
                                                      "low_freq_factor", "high_freq_factor",
                                                      "factor",          "partial_rotary_factor"};
      if (!each.is_null() && std::find(known.begin(), known.end(), each.key()) == known.end())
        throw io_error(at(place), "a key " + name_text(each.key()),
                       "only what plain and Llama 3's rotation have", "leaving it out would change the model");
    }
    refuse_partial(given(rope, "partial_rotary_factor"));
    auto const number = [&](char const* key) -> double {
      json const* const value = given(rope, key);
      if (value == nullptr)
        throw io_error(at(place), std::string("no ") + key, "it, since rope_type is 'llama3'");
      return value->as_double(at(place) + "." + key);
    };
    rotary_scaling s;
    if (kind == "default") {
      if (given(rope, "factor") != nullptr && number("factor") != 1.0)
        throw io_error(at(place), "factor " + given(rope, "factor")->describe() + " and no rope_type",
                       "a rope_type that says what it is for");
      return s;
    }
    s.kind = rotary_kind::llama3;
    s.factor = number("factor");
    s.low_freq_factor = number("low_freq_factor");
    s.high_freq_factor = number("high_freq_factor");
    (void)number("original_max_position_embeddings");
    s.original_max_position_embeddings = given(rope, "original_max_position_embeddings")
                                             ->as_index(at(place) + ".original_max_position_embeddings");
    return s;
  }
  [[nodiscard]] std::string kind_of(json const& rope, std::string const& place) const {
    json const* const newer = given(rope, "rope_type");
    json const* const older = given(rope, "type");
    json const* const kind = newer != nullptr ? newer : older;
    if (kind == nullptr) return "default";
    auto const& text = kind->as_string(at(place) + (newer != nullptr ? ".rope_type" : ".type"));
    if (newer != nullptr && older != nullptr && older->as_string(at(place) + ".type") != text)
      throw io_error(at(place), "rope_type " + name_text(text) + " and type " + older->describe(),
                     "them equal, or one of them");
    if (text != "default" && text != "llama3")
      throw io_error(at(place), "the rotary type " + name_text(text), "'default' or 'llama3'",
                     "other scalings are not implemented");
    return text;
  }
  void refuse_partial(json const* part) const {
    if (part != nullptr && part->as_double(at("partial_rotary_factor")) != 1.0)
      throw io_error(at("partial_rotary_factor"), part->describe(), "1", "heads are rotated whole");
  }

  void refuse_others() const {
    for (char const* name : {"mlp_bias", "use_sliding_window", "use_mrope", "rope_interleaved"})
      if (flag(name)) throw io_error(at(name), "true", "false", "it is not implemented");
    if (json const* const act = given("hidden_act"))  // two names of one function
      if (auto const& text = act->as_string(at("hidden_act")); text != "silu" && text != "swish")
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
