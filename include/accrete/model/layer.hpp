#pragma once
#include <array>
#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "accrete/io/model_config.hpp"
#include "accrete/io/rotary_scaling.hpp"
#include "accrete/placement/norm_placement.hpp"

/// What a decoder layer is made of, slot by slot. A slot that is named is compile time and wins over the
/// teacher's file; one that is not, or is called `like_teacher`, follows the file.
namespace accrete::inline v0::layer {

/// Head norms a layer has.
struct head_norm_flags {
  bool q = false;
  bool k = false;
  bool v = false;
  friend bool operator==(head_norm_flags const&, head_norm_flags const&) = default;
};

/// What a layer has, as run-time values: the model compiles once for all of them.
struct features {
  head_norm_flags head_norms;
  bool qkv_bias = false;
  bool output_bias = false;
  io::rotary_scaling rotary;
  friend bool operator==(features const&, features const&) = default;
};

/// The whole layer as the file says, or one slot of it.
struct like_teacher {
  static features of(io::model_config const& c) {
    return {{c.qk_norm, c.qk_norm, c.v_norm}, c.qkv_bias, c.output_bias, c.rotary};
  }
  static constexpr char const* name = "like_teacher";
};

namespace qk_norm {
struct none {  ///< Llama, Qwen2
  static constexpr char const* name = "no qk_norm";
};
struct per_head {  ///< Qwen3: RMS norm over head_dim, one gain for all heads, before the rotation
  static constexpr char const* name = "qk_norm per head";
};
}  // namespace qk_norm
namespace bias {
struct none {  ///< Llama, Qwen3
  static constexpr char const* name = "no bias";
};
struct qkv {  ///< Qwen2: q, k and v
  static constexpr char const* name = "qkv bias";
};
struct qkvo {  ///< all four projections: Llama and Qwen3 with attention_bias
  static constexpr char const* name = "qkvo bias";
};
}  // namespace bias
/// All turn the pairs (i, i + head_dim / 2), as Hugging Face stores Llama and Qwen, and differ in how fast.
/// A kind of one's own is a struct with these two members.
namespace rotary {
struct half_split {  ///< theta^(-2i / head_dim) a position, with the teacher's theta
  static constexpr char const* name = "half_split";
  static constexpr io::rotary_scaling scaling{};
};
struct llama3 {  ///< the same, stretched as Llama 3.1 8B does
  static constexpr char const* name = "llama3";
  static constexpr io::rotary_scaling scaling{io::rotary_kind::llama3, 8, 1, 4, 8192};
};
}  // namespace rotary
namespace norms {
struct rms {};
}  // namespace norms

template <class R>
concept rotary_policy = requires {
  { R::name } -> std::convertible_to<std::string_view>;
  { R::scaling } -> std::convertible_to<io::rotary_scaling>;
};

template <class QkNorm = like_teacher, class Rotary = like_teacher, class Bias = like_teacher>
struct grouped_query {
  template <class Slot, class... Choices>
  static constexpr bool one_of = (std::is_same_v<Slot, Choices> || ...);
  static_assert(one_of<QkNorm, qk_norm::none, qk_norm::per_head, like_teacher>,
                "[accrete] layer::grouped_query: QkNorm must be one of layer::qk_norm::{none, per_head} or "
                "layer::like_teacher");
  static_assert(
      one_of<Rotary, like_teacher> || rotary_policy<Rotary>,
      "[accrete] layer::grouped_query: Rotary must be one of layer::rotary::{half_split, llama3}, "
      "layer::like_teacher, or a struct with 'static constexpr io::rotary_scaling scaling' and 'static "
      "constexpr char const* name'");
  static_assert(one_of<Bias, bias::none, bias::qkv, bias::qkvo, like_teacher>,
                "[accrete] layer::grouped_query: Bias must be one of layer::bias::{none, qkv, qkvo} or "
                "layer::like_teacher");

  static features of(io::model_config const& c) {
    auto made = like_teacher::of(c);
    if constexpr (!std::is_same_v<QkNorm, like_teacher>)
      made.head_norms.q = made.head_norms.k = std::is_same_v<QkNorm, qk_norm::per_head>;
    if constexpr (!std::is_same_v<Rotary, like_teacher>) made.rotary = Rotary::scaling;
    if constexpr (!std::is_same_v<Bias, like_teacher>) {
      made.output_bias = std::is_same_v<Bias, bias::qkvo>;
      made.qkv_bias = !std::is_same_v<Bias, bias::none>;
    }
    return made;
  }
  using qk_norm_type = QkNorm;
  using rotary_type = Rotary;
  using bias_type = Bias;
};
struct swiglu {};

namespace detail {

// "decoder<a, b, c>" with a place of its own, so that a name can be a constant.
template <class A, class B, class C>
constexpr auto joined_name() {
  constexpr std::size_t others = 8 + 2 + 2 + 1 + 1;  // decoder<, two separators, > and the end
  constexpr std::string_view a = A::name, b = B::name, c = C::name;
  std::array<char, a.size() + b.size() + c.size() + others> text{};
  std::size_t at = 0;
  for (std::string_view const piece : {std::string_view("decoder<"), a, std::string_view(", "), b,
                                       std::string_view(", "), c, std::string_view(">")})
    for (char const letter : piece) text[at++] = letter;
  return text;
}
template <class A, class B, class C>
inline constexpr auto joined = joined_name<A, B, C>();

}  // namespace detail

template <class Attention = grouped_query<>, class Mlp = swiglu, class Norm = norms::rms>
struct decoder {
  static_assert(std::is_same_v<Mlp, swiglu>, "[accrete] layer::decoder: Mlp must be layer::swiglu");
  static_assert(std::is_same_v<Norm, norms::rms>, "[accrete] layer::decoder: Norm must be layer::norms::rms");
  static features of(io::model_config const& c) { return Attention::of(c); }
  static constexpr char const* name = detail::joined<typename Attention::qk_norm_type,
                                                     typename Attention::rotary_type,
                                                     typename Attention::bias_type>.data();
};

template <class L>
concept decoder_layer_policy = requires(io::model_config const& c) {
  { L::of(c) } -> std::same_as<features>;
};
static_assert(decoder_layer_policy<like_teacher> && decoder_layer_policy<decoder<>>);

template <class L>
struct check_decoder_layer {
  static_assert(
      decoder_layer_policy<L>,
      "[accrete] student: Layer must be layer::like_teacher, layer::decoder<...>, or a struct with 'static "
      "layer::features of(io::model_config const&)'");
};

/// What the layer itself has, and the head norms its placement asks for (HybridNorm).
template <norm_placement P, decoder_layer_policy L>
features features_of(io::model_config const& c) {
  constexpr auto wanted = placement::head_norms_of<P>();
  auto made = L::of(c);
  if (wanted != placement::head_norm::none) made.head_norms.q = made.head_norms.k = true;
  if (wanted == placement::head_norm::qkv) made.head_norms.v = true;
  return made;
}

/// What a student's layers have that its teacher's have not, or the other way round; empty where they agree.
inline std::string difference_from(io::model_config const& teacher, features const& student) {
  auto const words = [](std::initializer_list<std::pair<bool, char const*>> flags) {
    std::string text;
    for (auto const& [has, name] : flags)
      if (has) text += (text.empty() ? "" : ", ") + std::string(name);
    return text.empty() ? std::string("none") : text;
  };
  auto const norms = [&](features const& f) {
    return words({{f.head_norms.q, "q"}, {f.head_norms.k, "k"}, {f.head_norms.v, "v"}});
  };
  auto const biases = [&](features const& f) {
    return words({{f.qkv_bias, "q, k, v"}, {f.output_bias, "output"}});
  };
  auto const turns = [](features const& f) { return io::text_of(f.rotary); };
  auto const own = like_teacher::of(teacher);
  std::string text;
  auto const compare = [&](char const* what, auto const& tell) {
    auto const a = tell(student), b = tell(own);
    if (a != b)
      text += (text.empty() ? "" : "; ") + std::string(what) + ": " + a + " (the teacher's: " + b + ")";
  };
  compare("head norms", norms);
  compare("biases", biases);
  compare("rotation", turns);
  return text;
}

}  // namespace accrete::inline v0::layer
