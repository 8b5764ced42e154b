#pragma once
#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "accrete/core/error.hpp"
#include "accrete/core/view.hpp"
#include "accrete/io/model_config.hpp"
#include "accrete/io/rotary_scaling.hpp"

namespace accrete::inline v0::io {

/// {rows, columns} = {outputs, inputs}; a gain or bias of n numbers is one row, {1, n}.
using tensor_shape = std::array<index_t, 2>;

/// A model on disk, read tensor by tensor under Hugging Face's names, whatever the file calls them and however
/// it stores them. Opening one checks that every tensor the config asks for is there, in its shape and in a
/// number format that can be read, and that no other is.
struct weight_source {
  model_config config;

  weight_source() = default;
  weight_source(weight_source const&) = delete;
  weight_source& operator=(weight_source const&) = delete;
  virtual ~weight_source() = default;

  /// "lm_head.weight" is there exactly when the head is not tied to the embedding.
  [[nodiscard]] virtual bool has(std::string_view hf_name) const = 0;
  [[nodiscard]] virtual tensor_shape shape(std::string_view hf_name) const = 0;
  /// Rows [first_row, first_row + out.rows()) as f32, written straight to their place. Query and key rows (and
  /// numbers of their biases) come in half-split rotary order: within a head of dh rows, row i is rotated with
  /// row i + dh/2. Throws io_error on values that are not finite.
  virtual void read_rows(std::string_view hf_name, index_t first_row, view<float, 2> out) const = 0;
  /// 32 hexadecimal digits that follow from the file's content and not from its name or place.
  [[nodiscard]] virtual std::string identity() const = 0;
};

namespace detail {

/// Calls fn(hf_name, shape) for every tensor a model of this config has, in the order of a forward pass.
template <class Fn>
void for_each_tensor(model_config const& c, Fn&& fn) {
  index_t const d = c.hidden_size;
  bool const pre_norm = c.layer_equation.empty();
  fn(std::string("model.embed_tokens.weight"), tensor_shape{c.vocab_size, d});
  for (auto const& name : c.norms) fn(name, tensor_shape{1, d});
  for (index_t i = 0; i < c.num_hidden_layers; ++i) {
    std::string const layer = "model.layers." + std::to_string(i) + ".";
    if (pre_norm) fn(layer + "input_layernorm.weight", tensor_shape{1, d});
    fn(layer + "self_attn.q_proj.weight", tensor_shape{c.query_rows(), d});
    fn(layer + "self_attn.k_proj.weight", tensor_shape{c.key_value_rows(), d});
    fn(layer + "self_attn.v_proj.weight", tensor_shape{c.key_value_rows(), d});
    if (c.qkv_bias) {
      fn(layer + "self_attn.q_proj.bias", tensor_shape{1, c.query_rows()});
      fn(layer + "self_attn.k_proj.bias", tensor_shape{1, c.key_value_rows()});
      fn(layer + "self_attn.v_proj.bias", tensor_shape{1, c.key_value_rows()});
    }
    fn(layer + "self_attn.o_proj.weight", tensor_shape{d, c.query_rows()});
    if (c.output_bias) fn(layer + "self_attn.o_proj.bias", tensor_shape{1, d});
    if (c.qk_norm) {
      fn(layer + "self_attn.q_norm.weight", tensor_shape{1, c.head_dim});
      fn(layer + "self_attn.k_norm.weight", tensor_shape{1, c.head_dim});
    }
    if (c.v_norm) fn(layer + "self_attn.v_norm.weight", tensor_shape{1, c.head_dim});
    if (pre_norm) fn(layer + "post_attention_layernorm.weight", tensor_shape{1, d});
    fn(layer + "mlp.gate_proj.weight", tensor_shape{c.intermediate_size, d});
    fn(layer + "mlp.up_proj.weight", tensor_shape{c.intermediate_size, d});
    fn(layer + "mlp.down_proj.weight", tensor_shape{d, c.intermediate_size});
  }
  if (pre_norm) fn(std::string("model.norm.weight"), tensor_shape{1, d});
  if (!c.tie_word_embeddings) fn(std::string("lm_head.weight"), tensor_shape{c.vocab_size, d});
}

/// Whether one model can have these sizes at all; also keeps every product of two of them far from overflow.
inline void require_consistent(model_config const& c, std::string const& where) {
  struct named_size {
    char const* name;
    index_t value;
  };
  for (named_size const each :
       {named_size{"hidden_size", c.hidden_size}, named_size{"num_hidden_layers", c.num_hidden_layers},
        named_size{"num_attention_heads", c.num_attention_heads},
        named_size{"num_key_value_heads", c.num_key_value_heads}, named_size{"head_dim", c.head_dim},
        named_size{"intermediate_size", c.intermediate_size}, named_size{"vocab_size", c.vocab_size},
        named_size{"max_position_embeddings", c.max_position_embeddings}})
    if (each.value < 1 || each.value > (index_t(1) << 30))
      throw io_error(where + ": " + each.name, std::to_string(each.value), "1 to 2^30");
  if (c.num_attention_heads % c.num_key_value_heads != 0)
    throw io_error(where,
                   std::to_string(c.num_attention_heads) + " query heads on " +
                       std::to_string(c.num_key_value_heads) + " key-value heads",
                   "a whole number of query heads for each");
  if (c.head_dim % 2 != 0)
    throw io_error(where + ": head_dim", std::to_string(c.head_dim), "an even number",
                   "rotary embedding turns pairs");
  if (!(c.rms_norm_eps > 0 && c.rms_norm_eps < 1))
    throw io_error(where + ": rms_norm_eps", std::to_string(c.rms_norm_eps), "a small positive number");
  if (!(c.rope_theta > 1 && c.rope_theta < 1e15))
    throw io_error(where + ": rope_theta", std::to_string(c.rope_theta), "a number above 1");
  require_sound(c.rotary, where + ": rope_scaling");
}

}  // namespace detail
}  // namespace accrete::inline v0::io
