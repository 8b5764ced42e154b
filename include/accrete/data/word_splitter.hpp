#pragma once
// The width is only what the unsuffixed names of pcre2.h mean; the names used here all end in _8.
#ifndef PCRE2_CODE_UNIT_WIDTH
#define PCRE2_CODE_UNIT_WIDTH 8
#endif
#include <pcre2.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <string_view>

#include "accrete/core/error.hpp"

namespace accrete::inline v0::data {

/// A compiled pattern that cuts text into words. Read-only after construction, so threads may share it; each
/// brings its own `memory`.
class word_splitter {
 public:
  struct free_code {
    void operator()(pcre2_code_8* p) const { pcre2_code_free_8(p); }
  };
  struct free_match {
    void operator()(pcre2_match_data_8* p) const { pcre2_match_data_free_8(p); }
  };
  using memory = std::unique_ptr<pcre2_match_data_8, free_match>;

  /// Throws `config_error` with PCRE2's own words on a pattern that does not compile.
  explicit word_splitter(std::string_view pattern) {
    int code = 0;
    std::size_t at = 0;
    code_.reset(pcre2_compile_8(reinterpret_cast<PCRE2_SPTR8>(pattern.data()), pattern.size(),
                                PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &code, &at, nullptr));
    if (!code_)
      throw config_error("data::word_splitter",
                         "a pattern with '" + message(code) + "' at " + std::to_string(at), "a PCRE2 pattern");
    // A PCRE2 built without a compiler of its own interprets the pattern instead: the same words, slower.
    compiled_ = pcre2_jit_compile_8(code_.get(), PCRE2_JIT_COMPLETE) == 0;
  }

  [[nodiscard]] memory make_memory() const {
    memory made(pcre2_match_data_create_from_pattern_8(code_.get(), nullptr));
    if (!made) throw std::bad_alloc();
    return made;
  }

  /// Calls `visit(std::string_view piece, bool matched)` for matches and what lies between them, in order;
  /// together they are the text. Of all pieces only a match may be empty. The text must be valid UTF-8: it is
  /// not checked again.
  template <class Visit>
  void for_each_piece(std::string_view text, memory const& m, Visit&& visit) const {
    auto const* const subject = reinterpret_cast<PCRE2_SPTR8>(text.data());
    std::size_t const* const match = pcre2_get_ovector_pointer_8(m.get());
    std::size_t done = 0, from = 0;
    while (from < text.size()) {
      int found = compiled_ ? pcre2_jit_match_8(code_.get(), subject, text.size(), from, 0, m.get(), nullptr)
                            : PCRE2_ERROR_JIT_STACKLIMIT;
      if (found == PCRE2_ERROR_JIT_STACKLIMIT)  // or a match so long that it takes the other matcher's memory
        found = pcre2_match_8(code_.get(), subject, text.size(), from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
                              m.get(), nullptr);
      if (found == PCRE2_ERROR_NOMATCH) break;
      if (found < 0)
        throw error("data::word_splitter", "'" + message(found) + "' at byte " + std::to_string(from),
                    "a match or none");
      if (match[0] > done) visit(text.substr(done, match[0] - done), false);
      visit(text.substr(match[0], match[1] - match[0]), true);
      done = match[1];
      from = match[1] > match[0] ? match[1] : after(text, match[1]);
    }
    if (done < text.size()) visit(text.substr(done), false);
  }

  /// Calls `visit(std::string_view word)` for every word: what the pattern matches, and what it does not.
  template <class Visit>
  void split(std::string_view text, memory const& m, Visit&& visit) const {
    for_each_piece(text, m, [&](std::string_view piece, bool) {
      if (!piece.empty()) visit(piece);
    });
  }

 private:
  static std::string message(int code) {
    char text[256] = "";
    pcre2_get_error_message_8(code, reinterpret_cast<PCRE2_UCHAR8*>(text), sizeof text);
    return text;
  }
  static std::size_t after(std::string_view text, std::size_t i) {  // the next character's first byte
    do ++i;
    while (i < text.size() && (static_cast<unsigned char>(text[i]) & 0xC0u) == 0x80u);
    return i;
  }

  std::unique_ptr<pcre2_code_8, free_code> code_;
  bool compiled_ = false;
};

}  // namespace accrete::inline v0::data
