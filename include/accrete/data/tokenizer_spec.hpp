#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "accrete/data/normal_form.hpp"
#include "accrete/data/split_step.hpp"

namespace accrete::inline v0::data {

/// What a byte-level BPE tokenizer is made of, as files say it.
struct tokenizer_spec {
  /// As `tokenizer.ggml.token_type` numbers them.
  enum kind : std::int32_t { normal = 1, unknown_text = 2, control = 3, user_defined = 4, unused = 5 };

  /// A token that is looked for in the text itself, before it is split. Names are those of tokenizer.json.
  struct added_token {
    std::int32_t id = -1;      ///< its text is `tokens[id]` as plain text, unless `content` is given
    std::string content{};     ///< for a token that is a normal one as well
    bool special = false;      ///< a control token: found only when asked for
    bool single_word = false;  ///< not inside of a word
    bool lstrip = false;       ///< takes the white space before it along
    bool rstrip = false;       ///< and that after it
    bool normalized = false;   ///< looked for in normalized text
  };

  std::filesystem::path file{};     ///< what it was read from; empty: made by hand
  std::string source;               ///< the file, as messages name it: "'models/tokenizer.json'"
  std::vector<std::string> tokens;  ///< [V] normal ones in GPT-2's byte alphabet, all others as plain text
  std::vector<std::int32_t> kinds;  ///< [V], or empty: all normal
  std::vector<std::string> merges;  ///< "left right", the most important first
  /// Without a list, control and user-defined tokens are added tokens.
  std::optional<std::vector<added_token>> added{};

  normal_form normalization = normal_form::none;
  std::string split = "gpt-2";  ///< a name of `split_rules`, which also says `ignore_merges`; or:
  std::optional<std::vector<split_step>> steps{};
  bool ignore_merges = false;  ///< with `steps`: a word that is a token is taken as it is

  std::int32_t bos = -1;  ///< -1: none
  std::int32_t eos = -1;
  std::int32_t unknown = -1;  ///< stands for a byte that the vocabulary lacks
  bool fuse_unknown = false;  ///< several such bytes in a row are one
  bool drop_lacking = false;  ///< without `unknown`: such a byte is left out, as `tokenizers` does
  bool add_bos = false;       ///< whether the model expects `bos` in front of every text
  bool add_eos = false;       ///< and `eos` behind it

  /// How messages begin.
  [[nodiscard]] std::string where() const { return "data::tokenizer" + (source.empty() ? "" : " " + source); }
  /// The merge of a file that lists pairs instead of strings.
  void add_merge(std::string_view left, std::string_view right) {
    merges.push_back(std::string(left).append(1, ' ').append(right));
  }
};

}  // namespace accrete::inline v0::data
