#pragma once
#include <nlohmann/json.hpp>

#include <string>

#include "accrete/io/model_config.hpp"
#include "accrete/io/rotary_scaling.hpp"

namespace accrete::inline v0::io {

/// config.json as `transformers` writes it, for the three architectures of its own that this library computes
/// and, with `architecture` "accrete", for a model that brings its code along (what that code needs is added by
/// the caller). The rotary base stands in both of the places that readers look at.
inline nlohmann::ordered_json hf_config(model_config const& c, std::string const& dtype) {
  nlohmann::ordered_json rope{{"rope_type", "default"}, {"rope_theta", c.rope_theta}};
  if (c.rotary.kind == rotary_kind::llama3)
    rope = {{"rope_type", "llama3"},
            {"rope_theta", c.rope_theta},
            {"factor", c.rotary.factor},
            {"low_freq_factor", c.rotary.low_freq_factor},
            {"high_freq_factor", c.rotary.high_freq_factor},
            {"original_max_position_embeddings", c.rotary.original_max_position_embeddings}};
  std::string const name = c.architecture == "llama"   ? "Llama"
                           : c.architecture == "qwen2" ? "Qwen2"
                           : c.architecture == "qwen3" ? "Qwen3"
                                                       : "Accrete";
  nlohmann::ordered_json json{{"architectures", {name + "ForCausalLM"}},
                              {"model_type", c.architecture},
                              {"dtype", dtype},
                              {"torch_dtype", dtype},
                              {"hidden_size", c.hidden_size},
                              {"num_hidden_layers", c.num_hidden_layers},
                              {"num_attention_heads", c.num_attention_heads},
                              {"num_key_value_heads", c.num_key_value_heads},
                              {"head_dim", c.head_dim},
                              {"intermediate_size", c.intermediate_size},
                              {"vocab_size", c.vocab_size},
                              {"max_position_embeddings", c.max_position_embeddings},
                              {"rms_norm_eps", c.rms_norm_eps},
                              {"hidden_act", "silu"},
                              {"initializer_range", 0.02},
                              {"tie_word_embeddings", c.tie_word_embeddings},
                              {"use_cache", true}};
  if (c.architecture == "accrete") {  // with a key that `transformers` does not look for
    json["rotary"] = rope;
  } else {
    json["rope_theta"] = c.rope_theta;
    json["rope_parameters"] = rope;
    if (c.rotary.kind != rotary_kind::plain) json["rope_scaling"] = rope;
    if (c.architecture != "qwen2") json["attention_bias"] = c.qkv_bias && c.output_bias;
  }
  if (c.bos_token_id >= 0) json["bos_token_id"] = c.bos_token_id;
  if (c.eos_token_ids.size() == 1) json["eos_token_id"] = c.eos_token_ids.front();
  if (c.eos_token_ids.size() > 1) json["eos_token_id"] = c.eos_token_ids;
  if (c.eos_token_ids.empty() && c.eos_token_id >= 0) json["eos_token_id"] = c.eos_token_id;
  return json;
}

}  // namespace accrete::inline v0::io
