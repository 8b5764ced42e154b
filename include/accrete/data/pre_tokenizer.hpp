#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "accrete/data/added_tokens.hpp"
#include "accrete/data/normal_form.hpp"
#include "accrete/data/split_rule.hpp"
#include "accrete/data/text_splitter.hpp"
#include "accrete/data/tokenizer_spec.hpp"
#include "accrete/data/utf8.hpp"
#include "accrete/data/vocabulary.hpp"
#include "accrete/io/message_text.hpp"

namespace accrete::inline v0::data {

/// What happens to a text before its words become tokens: added tokens are found in it, what lies between is
/// normalized, added tokens are found once more, and the rest is split into words. Read-only once the added
/// tokens are in, so threads may share it; each brings its own `memory`.
class pre_tokenizer {
 public:
  struct memory {
    text_splitter::memory split;
    std::string normalized;
  };

  /// Throws `io_error` on a split rule of an unknown name and on a pattern that does not compile.
  explicit pre_tokenizer(tokenizer_spec const& spec)
      : splitter_(steps_of(spec), spec.where()), normal_(spec.normalization) {}

  [[nodiscard]] memory make_memory() const { return {splitter_.make_memory(), {}}; }

  /// Takes in the added tokens of a specification and returns them, each with its text. Throws `io_error` on
  /// one without an id in the vocabulary or whose text is not UTF-8.
  [[nodiscard]] std::vector<tokenizer_spec::added_token> insert_added(tokenizer_spec const& spec,
                                                                      vocabulary const& words) {
    std::vector<tokenizer_spec::added_token> added;
    if (spec.added) added = *spec.added;
    for (std::size_t id = 0; !spec.added && id < spec.kinds.size(); ++id)
      if (spec.kinds[id] == tokenizer_spec::control || spec.kinds[id] == tokenizer_spec::user_defined)
        added.push_back({.id = std::int32_t(id), .special = spec.kinds[id] == tokenizer_spec::control});
    std::string memory;
    for (auto& t : added) {
      if (t.id < 0 || t.id >= words.size())
        detail::bad_tokenizer(spec, "an added token of id " + std::to_string(t.id),
                              "an id below " + std::to_string(words.size()));
      if (t.content.empty()) t.content = words.piece(t.id, "data::tokenizer");
      if (find_invalid_utf8(t.content) != std::string_view::npos)  // half of a character would be left over
        detail::bad_tokenizer(spec, "an added token " + io::name_text(t.content), "UTF-8");
      added_tokens::token const token{t.id, t.special, t.single_word, t.lstrip, t.rstrip};
      if (t.normalized)
        normalized_.insert(normal_.apply(t.content, memory), token);
      else
        plain_.insert(t.content, token);
    }
    return added;
  }

  /// Calls `word(std::string_view)` for every word and `found(std::int32_t id)` for every added token, in
  /// order. A word lives until `word` returns. The text must be valid UTF-8: it is not checked again.
  template <class Word, class Found>
  void split(std::string_view text, bool with_special, memory& m, Word&& word, Found&& found) const {
    plain_.split(
        text, with_special,
        [&](std::string_view part) {
          part = normal_.apply(part, m.normalized);
          if (normalized_.empty()) return splitter_.split(part, m.split, word);
          normalized_.split(
              part, with_special, [&](std::string_view rest) { splitter_.split(rest, m.split, word); }, found);
        },
        found);
  }

 private:
  text_splitter splitter_;
  normalizer normal_;
  added_tokens plain_, normalized_;  // looked for in the text as it is, and in normalized text
};

}  // namespace accrete::inline v0::data
