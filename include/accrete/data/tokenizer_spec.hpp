#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace accrete::inline v0::data {

/// What a byte-level BPE tokenizer is made of, as files say it.
struct tokenizer_spec {
  /// As `tokenizer.ggml.token_type` numbers them.
  enum kind : std::int32_t { normal = 1, unknown_text = 2, control = 3, user_defined = 4, unused = 5 };

  std::vector<std::string> tokens;  ///< [V] normal ones in GPT-2's byte alphabet, all others as plain text
  std::vector<std::int32_t> kinds;  ///< [V], or empty: all normal
  std::vector<std::string> merges;  ///< "left right", the most important first
  std::string split = "gpt-2";      ///< a name of `split_rules`
  std::int32_t bos = -1;            ///< -1: none
  std::int32_t eos = -1;
  std::int32_t unknown = -1;  ///< stands for a byte that the vocabulary lacks
  bool add_bos = false;       ///< whether the model expects `bos` in front of every text

  /// The merge of a file that lists pairs instead of strings.
  void add_merge(std::string_view left, std::string_view right) {
    merges.push_back(std::string(left) + " " + std::string(right));
  }
};

}  // namespace accrete::inline v0::data
