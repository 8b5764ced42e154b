#pragma once
#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "accrete/core/error.hpp"

namespace accrete::inline v0::data {

/// Unicode's normalization forms, as a tokenizer.json names them.
enum class normal_form : std::uint8_t { none, nfc, nfd, nfkc, nfkd };

namespace detail {

/// What normalization asks of a character, for all of Unicode, worked out once. The tables behind Hugging
/// Face's `tokenizers` are Unicode 9's: there, marks and compositions that came later are characters like any
/// other, and equal tokens are what counts here. `later_marks` holds those of Unicode 10 to 17; where a block
/// is younger as a whole, all of it stands for its marks.
class normal_form_facts {
 public:
  struct range {
    std::uint32_t first, last;
  };
  static constexpr std::array<range, 32> later_marks{{
      {0x7FD, 0x7FD},     {0x897, 0x8D3},     {0x9FE, 0x9FE},     {0xC3C, 0xC3C},     {0xD3B, 0xD3C},
      {0xEBA, 0xEBA},     {0x1715, 0x1715},   {0x1ABF, 0x1AFF},   {0x1DF6, 0x1DFA},   {0xA82C, 0xA82C},
      {0x105C0, 0x105FF}, {0x10D00, 0x10D8F}, {0x10E80, 0x10FAF}, {0x11070, 0x11070}, {0x1133B, 0x1133B},
      {0x11380, 0x113FF}, {0x1145E, 0x1145E}, {0x11800, 0x1184F}, {0x11900, 0x1195F}, {0x119A0, 0x11AFF},
      {0x11B00, 0x11BFF}, {0x11D00, 0x11DEF}, {0x11F00, 0x11F5F}, {0x16100, 0x1613F}, {0x16D40, 0x16D7F},
      {0x16FF0, 0x16FF6}, {0x1E08F, 0x1E08F}, {0x1E100, 0x1E14F}, {0x1E290, 0x1E2FF}, {0x1E4D0, 0x1E4FF},
      {0x1E5D0, 0x1E5FF}, {0x1E6C0, 0x1E6FF},
  }};

  static constexpr std::uint32_t end = 0x30000;  // no marks and no decompositions from here on

  /// Canonical order of a mark, 0 for all other characters.
  [[nodiscard]] std::uint8_t combining_class(std::uint32_t c) const { return c < end ? classes_[c] : 0; }
  /// True when the form may change this character, by itself or together with one before it.
  [[nodiscard]] bool may_change(std::uint32_t c) const { return c < end && changes_[c]; }
  /// True for what Unicode 9 did not have: it takes no part.
  [[nodiscard]] bool stands_apart(std::uint32_t c) const {
    return c >= 0x7FD && std::any_of(later_marks.begin(), later_marks.end(),
                                     [c](range r) { return c >= r.first && c <= r.last; });
  }

  explicit normal_form_facts(normal_form form) : classes_(end), changes_(end) {
    bool const composes = form == normal_form::nfc || form == normal_form::nfkc;
    bool const compatible = form == normal_form::nfkc || form == normal_form::nfkd;
    std::array<utf8proc_int32_t, 32> parts{};
    auto const decomposed = [&](std::uint32_t c, bool k) {
      int last_class = 0;
      auto const n = utf8proc_decompose_char(
          utf8proc_int32_t(c), parts.data(), utf8proc_ssize_t(parts.size()),
          utf8proc_option_t(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | (k ? UTF8PROC_COMPAT : 0)), &last_class);
      return n < 0 ? std::size_t(0) : std::size_t(n);
    };
    for (std::uint32_t c = 0; c < end; ++c) {
      if ((c >= 0xD800 && c < 0xE000) || stands_apart(c)) continue;
      classes_[c] = std::uint8_t(utf8proc_get_property(utf8proc_int32_t(c))->combining_class);
      auto const n = decomposed(c, false);
      bool const canonical = n != 1 || parts[0] != utf8proc_int32_t(c);
      if (canonical && composes)
        for (std::size_t i = 1; i < n && i < parts.size(); ++i) changes_[std::size_t(parts[i])] = true;
      if (!composes && canonical) changes_[c] = true;
      if (compatible) {
        auto const m = decomposed(c, true);
        if (m != 1 || parts[0] != utf8proc_int32_t(c)) changes_[c] = true;
      }
    }
    if (!composes) return;
    for (std::uint32_t c = 0; c < end; ++c)
      if (!(c >= 0xD800 && c < 0xE000) && !stands_apart(c) && !composed_again(c)) changes_[c] = true;
  }

  /// The facts of a form; made when first asked for.
  [[nodiscard]] static normal_form_facts const& of(normal_form form) {
    static normal_form_facts const nfc(normal_form::nfc);
    if (form == normal_form::nfc) return nfc;
    static normal_form_facts const nfd(normal_form::nfd);
    if (form == normal_form::nfd) return nfd;
    static normal_form_facts const nfkc(normal_form::nfkc), nfkd(normal_form::nfkd);
    return form == normal_form::nfkc ? nfkc : nfkd;
  }

 private:
  /// Whether a character that NFC takes apart comes back as itself.
  static bool composed_again(std::uint32_t c) {
    std::array<utf8proc_int32_t, 32> parts{};
    int last_class = 0;
    auto const n =
        utf8proc_decompose_char(utf8proc_int32_t(c), parts.data(), utf8proc_ssize_t(parts.size()),
                                utf8proc_option_t(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE), &last_class);
    if (n == 1) return parts[0] == utf8proc_int32_t(c);
    if (n < 1 || std::size_t(n) > parts.size()) return false;
    return utf8proc_normalize_utf32(parts.data(), n, utf8proc_option_t(UTF8PROC_STABLE | UTF8PROC_COMPOSE)) ==
               1 &&
           parts[0] == utf8proc_int32_t(c);
  }

  std::vector<std::uint8_t> classes_;
  std::vector<bool> changes_;
};

/// The code point that begins at `i` of valid UTF-8, and `i` moves behind it.
[[nodiscard]] inline std::uint32_t next_code_point(std::string_view text, std::size_t& i) {
  auto const byte = [&](std::size_t k) { return std::uint32_t(static_cast<unsigned char>(text[k])); };
  std::uint32_t const lead = byte(i);
  if (lead < 0x80) return ++i, lead;
  if (lead < 0xE0) return i += 2, (lead & 0x1Fu) << 6 | (byte(i - 1) & 0x3Fu);
  if (lead < 0xF0) return i += 3, (lead & 0xFu) << 12 | (byte(i - 2) & 0x3Fu) << 6 | (byte(i - 1) & 0x3Fu);
  return i += 4,
         (lead & 7u) << 18 | (byte(i - 3) & 0x3Fu) << 12 | (byte(i - 2) & 0x3Fu) << 6 | (byte(i - 1) & 0x3Fu);
}

}  // namespace detail

/// Puts text into a normalization form. Most text is in it already and is only looked at.
class normalizer {
 public:
  explicit normalizer(normal_form form)
      : form_(form), facts_(form == normal_form::none ? nullptr : &detail::normal_form_facts::of(form)) {
    // All below lacks marks and, but for the forms that take apart, whatever changes.
    first_of_interest_ = form == normal_form::nfc ? 0xCC : 0xC2;  // lead byte of U+0300, of U+0080
  }

  [[nodiscard]] normal_form form() const { return form_; }

  /// `text`, valid UTF-8, in the form: itself where it is in it, else in `memory`.
  [[nodiscard]] std::string_view apply(std::string_view text, std::string& memory) const {
    if (facts_ == nullptr) return text;
    bool changed = false;
    std::size_t copied = 0;    // what of the text is in `memory`, once something has changed
    std::size_t boundary = 0;  // the last place where a form begins anew, whatever comes
    std::uint8_t last_class = 0;
    for (std::size_t i = 0; i < text.size();) {
      auto const lead = static_cast<unsigned char>(text[i]);
      if (lead < first_of_interest_) {
        boundary = i;
        last_class = 0;
        i += lead < 0x80 ? 1 : 2;
        continue;
      }
      std::size_t const here = i;
      auto const c = detail::next_code_point(text, i);
      auto const order = facts_->combining_class(c);
      if (!facts_->may_change(c) && (order == 0 || order >= last_class)) {
        if (order == 0) boundary = here;
        last_class = order;
        continue;
      }
      // From the boundary before to the next one.
      while (i < text.size()) {
        std::size_t next = i;
        auto const d = detail::next_code_point(text, next);
        if (facts_->combining_class(d) == 0 && !facts_->may_change(d)) break;
        i = next;
      }
      if (!changed) memory.clear();
      changed = true;
      memory.append(text, copied, boundary - copied);
      append_normalized(text.substr(boundary, i - boundary), memory);
      copied = boundary = i;
      last_class = 0;
    }
    if (!changed) return text;
    memory.append(text, copied, text.size() - copied);
    return memory;
  }

 private:
  void append_normalized(std::string_view part, std::string& out) const {
    std::size_t first = 0;
    if (facts_->stands_apart(detail::next_code_point(part, first)))
      out.append(part.substr(0, first));  // only a boundary can be such a character
    else
      first = 0;
    part.remove_prefix(first);
    if (part.empty()) return;
    int const forms[] = {0, UTF8PROC_COMPOSE, UTF8PROC_DECOMPOSE, UTF8PROC_COMPOSE | UTF8PROC_COMPAT,
                         UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT};
    utf8proc_uint8_t* made = nullptr;
    auto const size =
        utf8proc_map(reinterpret_cast<utf8proc_uint8_t const*>(part.data()), utf8proc_ssize_t(part.size()),
                     &made, utf8proc_option_t(UTF8PROC_STABLE | forms[std::size_t(form_)]));
    struct free_memory {
      void operator()(utf8proc_uint8_t* p) const { std::free(p); }
    };
    std::unique_ptr<utf8proc_uint8_t, free_memory> const holder(made);
    if (size == UTF8PROC_ERROR_NOMEM) throw std::bad_alloc();
    if (size < 0)
      throw error("data::normalizer", std::string("'") + utf8proc_errmsg(size) + "'", "text to normalize");
    out.append(reinterpret_cast<char const*>(made), std::size_t(size));
  }

  normal_form form_;
  detail::normal_form_facts const* facts_;
  unsigned char first_of_interest_ = 0;
};

}  // namespace accrete::inline v0::data
