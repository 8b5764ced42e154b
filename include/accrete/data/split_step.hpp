#pragma once
#include <string>
#include <utility>
#include <vector>

#include "accrete/data/oniguruma.hpp"

namespace accrete::inline v0::data {

/// One step of a pre-tokenizer: what a pattern does to each piece that the step before made.
struct split_step {
  /// What becomes of the matches, in the words of tokenizer.json.
  enum behavior { isolated, removed, merged_with_previous, merged_with_next, contiguous };

  std::string pattern;  ///< PCRE2 with UTF and UCP; empty: no split
  behavior how = isolated;
  bool invert = false;        ///< what lies between the matches counts as the matches
  bool prefix_space = false;  ///< first of all: a space in front of a piece that does not begin with one

  friend bool operator==(split_step const&, split_step const&) = default;
};

/// Each digit by itself, or digits that follow each other together.
[[nodiscard]] inline split_step digits_step(bool individual) {
  return {"[" + detail::digit_members() + "]" + (individual ? "" : "+")};
}

/// GPT-2's split, which tokenizer.json calls ByteLevel with use_regex. With `digits_apart` a digit ends a
/// stretch that is split by itself, as two steps would have it: white space in front of a digit stays whole.
[[nodiscard]] inline split_step gpt2_step(bool digits_apart = false) {
  std::string const space(detail::white_space);
  std::string const digits = digits_apart ? detail::digit_members() : detail::property_members("N");
  std::string const letters = detail::property_members("L");
  return {(digits_apart ? "[" + digits + "]|" : std::string()) + "'s|'t|'re|'ve|'m|'ll|'d| ?[" + letters +
          "]+|" + (digits_apart ? "" : " ?[" + digits + "]+|") + " ?[^" + space + letters + digits + "]+|[" +
          space + "]+(?![^" + space + (digits_apart ? digits : "") + "])|[" + space + "]+"};
}

/// The same words in fewer passes.
[[nodiscard]] inline std::vector<split_step> fused(std::vector<split_step> steps) {
  if (steps.size() == 2 && steps[0] == digits_step(true) && steps[1] == gpt2_step()) return {gpt2_step(true)};
  return steps;
}

}  // namespace accrete::inline v0::data
