#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "accrete/core/view.hpp"
#include "accrete/io/rotary_scaling.hpp"

namespace accrete::inline v0::io {

/// What a model file says of the model's shape. Names follow Hugging Face's config.json.
struct model_config {
  std::string architecture;  ///< "llama", "qwen2", "qwen3": what the file says, not what the code looks at
  index_t hidden_size = 0;
  index_t num_hidden_layers = 0;
  index_t num_attention_heads = 0;
  index_t num_key_value_heads = 0;
  index_t head_dim = 0;  ///< explicit; never derived where the file says otherwise
  index_t intermediate_size = 0;
  index_t vocab_size = 0;
  index_t max_position_embeddings = 0;
  double rms_norm_eps = 1e-6;
  double rope_theta = 10000.0;
  rotary_scaling rotary;
  bool tie_word_embeddings = false;
  bool qk_norm = false;                     ///< per-head RMS norm of q and k before the rotation (Qwen3)
  bool qkv_bias = false;                    ///< q, k and v have biases (Qwen2)
  bool output_bias = false;                 ///< so has attention's output (Llama and Qwen3 with attention_bias)
  std::int32_t bos_token_id = -1;           ///< -1: the file names none
  std::int32_t eos_token_id = -1;           ///< what ends a document; the first where the file names several
  std::vector<std::int32_t> eos_token_ids;  ///< all that end a text, in the order they are named

  /// Of a model that this library saved and no class of `transformers` computes: its equation, as
  /// wiring::equation_text writes it, the depth its constants are taken at and the names of its [D] norms. Else
  /// the equation is empty, which means pre-norm.
  std::string layer_equation;
  std::string wiring;  ///< the same with the values of constants, and the ends
  std::string placement;
  index_t final_depth = 0;
  std::vector<std::string> norms;
  bool v_norm = false;  ///< per-head norm of v as well (HybridNorm)

  [[nodiscard]] int depth_of_constants() const {
    return int(final_depth > 0 ? final_depth : num_hidden_layers);
  }
  /// Rows of the fused q|k|v projection.
  [[nodiscard]] index_t qkv_rows() const { return (num_attention_heads + 2 * num_key_value_heads) * head_dim; }
  [[nodiscard]] index_t query_rows() const { return num_attention_heads * head_dim; }
  [[nodiscard]] index_t key_value_rows() const { return num_key_value_heads * head_dim; }
};

}  // namespace accrete::inline v0::io
