#pragma once
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "accrete/core/error.hpp"
#include "accrete/data/oniguruma.hpp"
#include "accrete/data/split_step.hpp"
#include "accrete/data/tokenizer_spec.hpp"
#include "accrete/io/message_text.hpp"

namespace accrete::inline v0::data {

/// How text is cut into words before byte pairs are merged, by name: GGUF files give no more than that
/// (`tokenizer.ggml.pre`).
struct split_rule {
  std::string_view name;
  bool digits_apart;         ///< each digit by itself, before anything else
  std::string_view pattern;  ///< as a tokenizer.json spells it; empty: GPT-2's split
  bool whole_words;          ///< a word that is in the vocabulary is taken as it is, merges or not
};

inline constexpr std::array<split_rule, 4> split_rules{{
    {"gpt-2", false, "", false},
    {"smollm", true, "", false},
    {"qwen2", false,
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+)"
     R"(|\s+(?!\S)|\s+)",
     false},
    {"llama-bpe", false,
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+)"
     R"(|\s+(?!\S)|\s+)",
     true},
}};

/// Throws `io_error` with the list of known names: a rule that is nearly right gives other tokens and a loss
/// that is only a little worse.
inline split_rule const& find_split_rule(std::string_view name,
                                         std::string const& where = "data::find_split_rule") {
  std::string known;
  for (split_rule const& rule : split_rules) {
    if (rule.name == name) return rule;
    known += (known.empty() ? "" : ", ") + std::string(rule.name);
  }
  throw io_error(where, "pre-tokenizer " + io::name_text(name), "one of " + known,
                 "add its pattern to data/split_rule.hpp");
}

/// A rule as steps.
[[nodiscard]] inline std::vector<split_step> steps_of(split_rule const& rule) {
  std::vector<split_step> steps;
  if (rule.digits_apart) steps.push_back(digits_step(true));
  steps.push_back(rule.pattern.empty() ? gpt2_step()
                                       : split_step{pcre2_pattern(rule.pattern, "data::split_rule")});
  return fused(std::move(steps));
}
/// The steps of a specification, by themselves or by name. Throws `io_error` on an unknown name.
[[nodiscard]] inline std::vector<split_step> steps_of(tokenizer_spec const& spec) {
  return spec.steps ? fused(*spec.steps) : steps_of(find_split_rule(spec.split, spec.where()));
}
/// Whether a word that is a token is taken as it is, likewise.
[[nodiscard]] inline bool takes_whole_words(tokenizer_spec const& spec) {
  return spec.steps ? spec.ignore_merges : find_split_rule(spec.split, spec.where()).whole_words;
}

}  // namespace accrete::inline v0::data
