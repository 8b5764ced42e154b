#pragma once
#include <array>
#include <string>
#include <string_view>

#include "accrete/core/error.hpp"
#include "accrete/io/message_text.hpp"

namespace accrete::inline v0::data {

/// How text is cut into words before byte pairs are merged. GGUF files give only a name for it
/// (`tokenizer.ggml.pre`).
struct split_rule {
  std::string_view name;
  std::string_view pattern;  ///< PCRE2, with UTF and UCP; matches follow each other without a gap
  bool whole_words;          ///< a word that is in the vocabulary is taken as it is, merges or not
};

// White space is spelled [\p{Z}\t-\r\x{85}]: Unicode's property of that name. PCRE2's \s has U+180E besides.
inline constexpr std::array<split_rule, 4> split_rules{{
    {"gpt-2",
     R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\p{Z}\t-\r\x{85}\p{L}\p{N}]+)"
     R"(|[\p{Z}\t-\r\x{85}]+(?![^\p{Z}\t-\r\x{85}])|[\p{Z}\t-\r\x{85}]+)",
     false},
    // Two splits in a row, each digit by itself and then GPT-2's split of what lies between, as one pattern: a
    // digit ends a stretch, so white space in front of one is at the end of its stretch and stays whole.
    {"smollm",
     R"(\p{N}|'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?[^\p{Z}\t-\r\x{85}\p{L}\p{N}]+)"
     R"(|[\p{Z}\t-\r\x{85}]+(?![^\p{Z}\t-\r\x{85}\p{N}])|[\p{Z}\t-\r\x{85}]+)",
     false},
    {"qwen2",
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\p{Z}\t-\r\x{85}\p{L}\p{N}]+[\r\n]*)"
     R"(|[\p{Z}\t-\r\x{85}]*[\r\n]+|[\p{Z}\t-\r\x{85}]+(?![^\p{Z}\t-\r\x{85}])|[\p{Z}\t-\r\x{85}]+)",
     false},
    {"llama-bpe",
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\p{Z}\t-\r\x{85}\p{L}\p{N}]+[\r\n]*)"
     R"(|[\p{Z}\t-\r\x{85}]*[\r\n]+|[\p{Z}\t-\r\x{85}]+(?![^\p{Z}\t-\r\x{85}])|[\p{Z}\t-\r\x{85}]+)",
     true},
}};

/// Throws `io_error` with the list of known names: a rule that is nearly right gives other tokens and a loss
/// that is only a little worse.
inline split_rule const& find_split_rule(std::string_view name) {
  std::string known;
  for (split_rule const& rule : split_rules) {
    if (rule.name == name) return rule;
    known += (known.empty() ? "" : ", ") + std::string(rule.name);
  }
  throw io_error("data::find_split_rule", "pre-tokenizer " + io::name_text(name), "one of " + known,
                 "add its pattern to data/split_rule.hpp");
}

}  // namespace accrete::inline v0::data
