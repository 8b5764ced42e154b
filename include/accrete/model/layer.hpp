#pragma once
#include <concepts>
#include <string>
#include <type_traits>
#include <utility>

#include "accrete/io/model_config.hpp"
#include "accrete/placement/norm_placement.hpp"

/// What a decoder layer is made of, slot by slot. A slot that is named is compile time and wins over the
/// teacher's file; `like_teacher` takes everything from the file.
namespace accrete::inline v0::layer {

namespace qk_norm {
struct none {};      ///< Llama
struct per_head {};  ///< Qwen3: RMS norm over head_dim, one gain for all heads, before the rotation
}  // namespace qk_norm
namespace rotary {
struct half_split {};  ///< pairs (i, i + head_dim / 2), as Hugging Face stores Llama and Qwen
}  // namespace rotary
namespace norms {
struct rms {};
}  // namespace norms

template <class QkNorm = qk_norm::none, class Rotary = rotary::half_split>
struct grouped_query {
  static_assert(std::is_same_v<QkNorm, qk_norm::none> || std::is_same_v<QkNorm, qk_norm::per_head>,
                "[accrete] layer::grouped_query: QkNorm must be one of layer::qk_norm::{none, per_head}");
  static_assert(std::is_same_v<Rotary, rotary::half_split>,
                "[accrete] layer::grouped_query: Rotary must be layer::rotary::half_split");
  static constexpr bool qk = std::is_same_v<QkNorm, qk_norm::per_head>;
};
struct swiglu {};

/// Head norms a layer has, as run-time flags: the model compiles once for all of them.
struct head_norm_flags {
  bool q = false;
  bool k = false;
  bool v = false;
  friend bool operator==(head_norm_flags const&, head_norm_flags const&) = default;
};

template <class Attention = grouped_query<>, class Mlp = swiglu, class Norm = norms::rms>
struct decoder {
  static_assert(std::is_same_v<Mlp, swiglu>, "[accrete] layer::decoder: Mlp must be layer::swiglu");
  static_assert(std::is_same_v<Norm, norms::rms>, "[accrete] layer::decoder: Norm must be layer::norms::rms");
  static constexpr head_norm_flags flags(io::model_config const&) {
    return {Attention::qk, Attention::qk, false};
  }
  static constexpr char const* name = Attention::qk ? "decoder<qk_norm per head>" : "decoder<no qk_norm>";
};

struct like_teacher {
  static head_norm_flags flags(io::model_config const& c) { return {c.qk_norm, c.qk_norm, false}; }
  static constexpr char const* name = "like_teacher";
};

template <class L>
concept decoder_layer_policy = requires(io::model_config const& c) {
  { L::flags(c) } -> std::same_as<head_norm_flags>;
};
static_assert(decoder_layer_policy<like_teacher> && decoder_layer_policy<decoder<>>);

template <class L>
struct check_decoder_layer {
  static_assert(
      decoder_layer_policy<L>,
      "[accrete] student: Layer must be layer::like_teacher, layer::decoder<...>, or a struct with 'static "
      "layer::head_norm_flags flags(io::model_config const&)'");
};

/// The layer's own head norms and those its placement asks for (HybridNorm).
template <norm_placement P, decoder_layer_policy L>
head_norm_flags head_norms(io::model_config const& c) {
  constexpr auto wanted = placement::head_norms_of<P>();
  auto flags = L::flags(c);
  if (wanted != placement::head_norm::none) flags.q = flags.k = true;
  if (wanted == placement::head_norm::qkv) flags.v = true;
  return flags;
}

/// What a student's layers have that its teacher's have not, or the other way round; empty where they agree.
inline std::string difference_from(io::model_config const& teacher, head_norm_flags const& student) {
  auto words = [](head_norm_flags const& f) {
    std::string text;
    for (auto const& [has, name] : {std::pair(f.q, "q"), std::pair(f.k, "k"), std::pair(f.v, "v")})
      if (has) text += (text.empty() ? "" : ", ") + std::string(name);
    return text.empty() ? std::string("none") : text;
  };
  auto const own = like_teacher::flags(teacher);
  return own == student ? std::string{}
                        : "head norms: " + words(student) + " (the teacher's: " + words(own) + ")";
}

}  // namespace accrete::inline v0::layer
