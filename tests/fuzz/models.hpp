#pragma once
#include <string>
#include <string_view>

#include "support/model_files.hpp"

/// The models whose weights lie beside what is fuzzed: as small as each architecture can be.
namespace fuzz {

inline accrete::io::model_config tiny_config(std::string architecture) {
  auto c = test::small_config(std::move(architecture));
  c.hidden_size = 4;
  c.num_hidden_layers = 1;
  c.head_dim = 2;
  c.intermediate_size = 3;
  c.vocab_size = 5;
  c.tie_word_embeddings = c.architecture != "llama";
  return c;
}
/// A student of another placement, as it is saved: its own names for norms.
inline accrete::io::model_config tiny_student_config() {
  auto c = tiny_config("accrete");
  c.layer_equation = "a = norm(x + attn(x)); norm(a + mlp(a))";
  c.placement = "post";
  c.final_depth = 1;
  c.norms = {"model.entry_norm.weight", "model.layers.0.attn_norm.weight", "model.layers.0.mlp_norm.weight"};
  c.qk_norm = true;
  return c;
}
inline std::string tiny_student_json() {
  return R"json({"model_type":"accrete","layer_equation":"a = norm(x + attn(x)); norm(a + mlp(a))","placement":"post",
"final_depth":1,"norms":["model.entry_norm.weight","model.layers.0.attn_norm.weight",
"model.layers.0.mlp_norm.weight"],"head_norms":["q","k"],"hidden_size":4,"num_hidden_layers":1,
"num_attention_heads":2,"num_key_value_heads":1,"head_dim":2,"intermediate_size":3,"vocab_size":5,
"max_position_embeddings":64,"rms_norm_eps":1e-5,"tie_word_embeddings":true,"qkv_bias":false,
"rotary":{"rope_type":"default","rope_theta":10000.0}})json";
}
/// The architecture that a config names, more or less: whose weights it shall find beside it.
inline std::string architecture_in(std::string_view config) {
  for (char const* name : {"qwen2", "qwen3", "accrete"})
    if (config.find(name) != config.npos) return name;
  return "llama";
}
inline test::model_in_memory tiny_model(std::string const& architecture) {
  return test::model_in_memory(architecture == "accrete" ? tiny_student_config() : tiny_config(architecture));
}

}  // namespace fuzz
