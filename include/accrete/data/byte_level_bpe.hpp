#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "accrete/core/error.hpp"
#include "accrete/data/byte_pairs.hpp"
#include "accrete/data/split_rule.hpp"
#include "accrete/data/tokenizer_spec.hpp"
#include "accrete/data/vocabulary.hpp"
#include "accrete/data/word_cache.hpp"
#include "accrete/io/message_text.hpp"

namespace accrete::inline v0::data {

/// The tokens of a word: its bytes as tokens, merged by rank. Read-only after construction, so threads may
/// share it; each brings its own `memory`.
class byte_level_bpe {
 public:
  struct memory {
    byte_pairs::memory merging;
    word_cache cache;
    std::vector<std::int32_t> bytes, ids;
  };

  /// `words` has to outlive it. Throws `io_error` on merges of what are no tokens.
  byte_level_bpe(tokenizer_spec const& spec, vocabulary const& words)
      : words_(words),
        pairs_(spec.merges.size()),
        unknown_(spec.unknown),
        fuse_unknown_(spec.fuse_unknown),
        drop_lacking_(spec.drop_lacking),
        whole_words_(takes_whole_words(spec)) {
    for (std::size_t b = 0; b < 256; ++b) {
      char const byte = char(b);
      byte_ids_[b] = words.find_word({&byte, 1});
      lacks_bytes_ = lacks_bytes_ || byte_ids_[b] < 0;
    }
    read_merges(spec);
  }

  /// Whether the vocabulary has no token for some byte.
  [[nodiscard]] bool lacks_bytes() const { return lacks_bytes_; }

  /// Throws `config_error` on a byte that no token stands for, unless such bytes are left out.
  void require_tokens(std::string_view text) const {
    if (unknown_ >= 0 || drop_lacking_ || !lacks_bytes_) return;
    for (std::size_t i = 0; i < text.size(); ++i)
      if (byte_ids_[static_cast<unsigned char>(text[i])] < 0)
        throw config_error("data::tokenizer::encode",
                           "at byte " + std::to_string(i) + " the value " +
                               std::to_string(unsigned(static_cast<unsigned char>(text[i]))) +
                               ", for which the vocabulary has no token",
                           "only bytes with one, since there is no unknown token",
                           "remove the character from the text");
  }

  /// Appends the tokens of a word.
  void encode(std::string_view word, memory& m, std::vector<std::int32_t>& out) const {
    if (auto const known = m.cache.find(word)) {
      out.insert(out.end(), known->begin(), known->end());
      return;
    }
    m.ids.clear();
    auto const whole = whole_words_ ? words_.find_word(word) : -1;
    if (whole >= 0) {
      m.ids.push_back(whole);
    } else {
      read_bytes(word, m.bytes);
      pairs_.apply(m.bytes, m.merging, m.ids);
    }
    m.cache.insert(word, m.ids);
    out.insert(out.end(), m.ids.begin(), m.ids.end());
  }

 private:
  void read_merges(tokenizer_spec const& spec) {
    std::string both;
    for (std::size_t rank = 0; rank < spec.merges.size(); ++rank) {
      std::string_view const entry = spec.merges[rank];
      auto const quoted = [&] { return "merge " + std::to_string(rank) + " " + io::name_text(entry); };
      auto const space = entry.find(' ');
      if (space == std::string_view::npos || entry.find(' ', space + 1) != std::string_view::npos)
        detail::bad_tokenizer(spec, quoted(), "two tokens with one space between");
      auto const left = words_.find_entry(entry.substr(0, space));
      auto const right = words_.find_entry(entry.substr(space + 1));
      auto const whole = words_.find_entry(both.assign(entry.substr(0, space)).append(entry.substr(space + 1)));
      if (left < 0 || right < 0 || whole < 0)
        detail::bad_tokenizer(spec, quoted(), "both parts and the whole to be tokens");
      pairs_.insert(left, right, {std::int32_t(rank), whole});
    }
  }

  void read_bytes(std::string_view word, std::vector<std::int32_t>& bytes) const {
    bytes.clear();
    bool lacked = false;  // the byte before
    for (char const c : word) {
      auto const id = byte_ids_[static_cast<unsigned char>(c)];
      if (id >= 0)
        bytes.push_back(id);
      else if (unknown_ >= 0 && !(lacked && fuse_unknown_))
        bytes.push_back(unknown_);
      lacked = id < 0;
    }
  }

  vocabulary const& words_;
  byte_pairs pairs_;
  std::int32_t unknown_;
  bool fuse_unknown_, drop_lacking_, whole_words_;
  bool lacks_bytes_ = false;
  std::array<std::int32_t, 256> byte_ids_{};
};

}  // namespace accrete::inline v0::data
