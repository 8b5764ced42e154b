#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "accrete/core/error.hpp"
#include "accrete/core/view.hpp"
#include "accrete/io/dequantize.hpp"
#include "accrete/io/detail/rows.hpp"
#include "accrete/io/ggml_type.hpp"
#include "accrete/io/gguf.hpp"
#include "accrete/io/message_text.hpp"
#include "accrete/io/model_config.hpp"
#include "accrete/io/rotary_scaling.hpp"
#include "accrete/io/weight_source.hpp"

namespace accrete::inline v0::io::detail {

/// Reads what a GGUF file says of its model: keys, and the tensors whose presence or content is a setting.
class gguf_config_reader {
 public:
  explicit gguf_config_reader(gguf_file const& file) : file_(file) {}

  model_config read() {
    model_config config;
    auto const arch = file_.get<std::string_view>("general.architecture");
    if (arch != "llama" && arch != "qwen2" && arch != "qwen3")
      throw io_error(file_.where() + ": key 'general.architecture'", name_text(arch),
                     "'llama', 'qwen2' or 'qwen3'");
    if (auto const parts = file_.get<index_t>("split.count", 1); parts > 1)
      throw io_error(file_.where(), "one of the " + std::to_string(parts) + " parts of a model",
                     "a whole model", "join them with llama-gguf-split --merge");
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
    config.qkv_bias = a == "qwen2" || file_.find_tensor("blk.0.attn_q.bias") != nullptr;
    config.output_bias = file_.find_tensor("blk.0.attn_output.bias") != nullptr;
    config.bos_token_id = file_.get<std::int32_t>("tokenizer.ggml.bos_token_id", -1);
    config.eos_token_id = file_.get<std::int32_t>("tokenizer.ggml.eos_token_id", -1);
    for (char const* ends : {"eos", "eot", "eom"})
      if (auto const id = file_.get<std::int32_t>("tokenizer.ggml." + std::string(ends) + "_token_id", -1);
          id >= 0 &&
          std::find(config.eos_token_ids.begin(), config.eos_token_ids.end(), id) == config.eos_token_ids.end())
        config.eos_token_ids.push_back(id);

    if (file_.has(key("attention.key_length"))) {
      config.head_dim = size("attention.key_length");
    } else {  // the format's own default, which only models with heads * head_dim = hidden may use
      if (config.num_attention_heads < 1 || config.hidden_size % config.num_attention_heads != 0)
        throw io_error(file_.where(), "no key " + name_text(key("attention.key_length")),
                       "it, since hidden_size is not a multiple of the head count");
      config.head_dim = config.hidden_size / config.num_attention_heads;
    }
    require_consistent(config, file_.where());
    read_frequency_factors(config);

    require_equal(key("attention.value_length"), config.head_dim, "as long as the keys");
    require_equal(key("rope.dimension_count"), config.head_dim, "the whole head rotated");
    require_equal(key("vocab_size"), config.vocab_size, "the embedding's rows");
    require_equal(key("expert_count"), 0, "no experts");
    require_equal(key("attention.sliding_window"), 0, "attention over the whole document");
    refuse_factors(a);
    auto const scaling = file_.get<std::string_view>(key("rope.scaling.type"), "none");
    if (scaling != "none")
      throw io_error(file_.where() + ": key " + name_text(key("rope.scaling.type")), name_text(scaling),
                     "'none'", "of the scalings of the rotation, Llama 3's alone is implemented");
    return config;
  }

 private:
  // Numbers that other models of the architecture multiply by or clamp at; each has a value that says nothing.
  void refuse_factors(std::string const& arch) const {
    struct neutral {
      char const* key;
      double value;
    };
    for (neutral const& each :
         {neutral{"rope.scaling.factor", 1}, neutral{"rope.scale_linear", 1},
          neutral{"rope.scaling.attn_factor", 1}, neutral{"attention.scale", 0},
          neutral{"attention.clamp_kqv", 0}, neutral{"attention.max_alibi_bias", 0},
          neutral{"attn_logit_softcapping", 0}, neutral{"final_logit_softcapping", 0},
          neutral{"logit_scale", 1}, neutral{"embedding_scale", 1}, neutral{"residual_scale", 1}}) {
      std::string const key = arch + "." + each.key;
      auto const value = file_.get<double>(key, each.value);
      if (value != each.value && value != 0.0)
        throw io_error(file_.where() + ": key " + name_text(key), std::to_string(value),
                       std::to_string(int(each.value)) + ", or no such key", "it is not implemented");
    }
    if (!file_.get<bool>(arch + ".attention.causal", true))
      throw io_error(file_.where() + ": key " + name_text(arch + ".attention.causal"), "false", "true",
                     "attention looks back only");
  }

  // Llama 3.1 and later come with the divisor of each rotary frequency written out, instead of the numbers it
  // follows from. Of those, the factor is the largest divisor; in the others all published models agree.
  void read_frequency_factors(model_config& config) const {
    gguf_tensor const* const t = file_.find_tensor("rope_freqs.weight");
    if (t == nullptr) return;
    std::string const here = file_.where() + ": tensor 'rope_freqs.weight'";
    auto const pairs = config.head_dim / 2;
    if (t->rows() != 1 || t->columns() != pairs || t->type != ggml_type::f32)
      throw io_error(here, name_of(t->type) + shape_text(t->shape), "F32[" + std::to_string(pairs) + "]");
    std::vector<float> divisors(std::size_t(pairs), 0.0f);
    view<float, 2> const row(divisors.data(), {1, pairs});
    dequantize_rows(*t, 0, row);
    require_finite([&] { return here; }, 0, row);
    rotary_scaling s;
    s.kind = rotary_kind::llama3;
    s.factor = double(*std::max_element(divisors.begin(), divisors.end()));
    if (s.factor == 1.0) s.kind = rotary_kind::plain;
    require_sound(s, here);
    auto const plain = rotary_frequencies(config.head_dim, config.rope_theta);
    auto const scaled = rotary_frequencies(config.head_dim, config.rope_theta, s);
    for (std::size_t i = 0; i < plain.size(); ++i)
      if (double const off = double(divisors[i]) * scaled[i] / plain[i] - 1; !(std::abs(off) < 1e-4))
        throw io_error(here, std::to_string(divisors[i]) + " at pair " + std::to_string(i),
                       std::to_string(plain[i] / scaled[i]) + ", as Llama 3 scales its rotation",
                       "other scalings are not implemented");
    config.rotary = s;
  }

  void require_equal(std::string const& key, index_t want, char const* why) const {
    auto const got = file_.get<index_t>(key, want);
    if (got != want)
      throw io_error(file_.where() + ": key " + name_text(key), std::to_string(got),
                     std::to_string(want) + ", " + why);
  }

  gguf_file const& file_;
};

}  // namespace accrete::inline v0::io::detail
