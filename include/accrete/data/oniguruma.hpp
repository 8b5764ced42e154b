#pragma once
#include <cstddef>
#include <string>
#include <string_view>

#include "accrete/core/error.hpp"
#include "accrete/data/unicode_additions.hpp"
#include "accrete/io/message_text.hpp"

namespace accrete::inline v0::data {

namespace detail {

/// White space as tokenizers' patterns have it, the inside of a class. PCRE2's \s has U+180E besides.
inline constexpr std::string_view white_space = R"(\p{Z}\t-\r\x{85})";

/// What `tokenizers` counts to a general category ("L", "Lu") beyond PCRE2's tables.
[[nodiscard]] inline std::string later_members(std::string_view category) {
  std::string text;
  for (unicode_addition const& a : unicode_additions)
    if (a.category.starts_with(category) && a.category.size() == 2) text += a.members;
  return text;
}
/// A property as the inside of a class.
[[nodiscard]] inline std::string property_members(std::string_view name) {
  return "\\p{" + std::string(name) + "}" + later_members(name);
}
/// What splits a digit from its neighbours where a file says `Digits`.
[[nodiscard]] inline std::string digit_members() {
  return property_members("N") + std::string(unicode_additions.back().members);
}

/// Reads a pattern in Oniguruma's Ruby syntax, which the files of `tokenizers` are written in, and writes the
/// same one for PCRE2. Whatever is not known to mean the same in both is refused.
class pattern_translator {
 public:
  pattern_translator(std::string_view pattern, std::string const& where) : in_(pattern), where_(where) {}

  [[nodiscard]] std::string translated() {
    if (in_.starts_with("(?i)")) take(4);  // means the whole pattern here, in Ruby only at the very start
    while (at_ < in_.size()) {
      char const c = in_[at_];
      if (c == '\\')
        escape(false);
      else if (c == '[')
        character_class();
      else if (c == '(')
        group();
      else if (c == '^' || c == '$')
        out_ += std::string("(?m:") + in_[at_++] + ")";  // Ruby's are those of a line
      else if (c == '*' || c == '+' || c == '?' || c == '{')
        quantifier();
      else
        take(1);
    }
    return out_;
  }

 private:
  [[nodiscard]] char peek(std::size_t ahead = 0) const {
    return at_ + ahead < in_.size() ? in_[at_ + ahead] : '\0';
  }
  void take(std::size_t n) {
    out_ += in_.substr(at_, n);
    at_ += n;
  }
  [[noreturn]] void refuse(std::string_view what) const {
    throw io_error(where_, io::name_text(what) + " at byte " + std::to_string(at_) + " of its pattern",
                   "a construct that is known to mean the same in PCRE2", "add it to data/oniguruma.hpp");
  }

  void group() {
    for (std::string_view const known : {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:", "(?-i:"})
      if (in_.substr(at_).starts_with(known)) return take(known.size());
    if (peek(1) == '?' || peek(1) == '*') refuse(in_.substr(at_, 4));
    out_ += "(?:";  // nothing refers to it
    ++at_;
  }

  void quantifier() {
    if (peek() != '{') {
      take(1);
      if (peek() == '?' || peek() == '+') take(1);  // lazy, possessive
      return;
    }
    auto const close = in_.find('}', at_);
    auto const body =
        close == std::string_view::npos ? std::string_view{} : in_.substr(at_ + 1, close - at_ - 1);
    bool const counts = !body.empty() && body != "," && body.find_first_not_of("0123456789,") == body.npos &&
                        body.find(',') == body.rfind(',');
    if (!counts) refuse(in_.substr(at_, 8));
    at_ = close + 1;
    if (peek() == '+' || (peek() == '?' && body.find(',') == body.npos)) refuse(in_.substr(close - 1, 3));
    out_ += body[0] == ',' ? "{0" + std::string(body) + "}" : "{" + std::string(body) + "}";
    if (peek() == '?') take(1);
  }

  void character_class() {
    take(1);
    if (peek() == '^') take(1);
    if (peek() == ']') refuse("[]");
    while (peek() != ']') {
      if (at_ == in_.size()) refuse("[");
      if (peek() == '\\')
        escape(true);
      else if (peek() == '[' || (peek() == '&' && peek(1) == '&'))
        refuse(in_.substr(at_, 2));
      else
        take(1);
    }
    take(1);
  }

  void escape(bool in_class) {
    char const c = peek(1);
    auto const put = [&](std::string const& members, bool negated) {
      if (in_class && negated) refuse(in_.substr(at_, 2));  // a class cannot take the rest of another
      out_ += in_class ? members : (negated ? "[^" : "[") + members + "]";
      at_ += 2;
    };
    switch (c) {
      case 's':
      case 'S':
        return put(std::string(white_space), c == 'S');
      case 'd':
      case 'D':
        return put(property_members("Nd"), c == 'D');
      case 'w':
      case 'W':
        // With six numbers of Latin-1 that Oniguruma takes for parts of words, and no others like them.
        return put(R"(\p{Alphabetic}\p{Pc}\x{B2}\x{B3}\x{B9}\x{BC}-\x{BE})" + property_members("M") +
                       property_members("Nd") + later_members("L"),
                   c == 'W');
      case 'p':
      case 'P':
        return property(in_class);
      case 'v':  // PCRE2's is a class
        out_ += "\\x{b}";
        at_ += 2;
        return;
      case 't':
      case 'n':
      case 'r':
      case 'f':
      case 'a':
      case 'e':
        return take(2);
      case 'x':
      case 'u':
        return code_point();
      default:
        if (c == '\0' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
          refuse(in_.substr(at_, 2));
        return take(2);  // a character without its meaning
    }
  }

  void code_point() {  // \x7F, \x{10FFFF}, \uFFFF
    bool const braces = peek(1) == 'x' && peek(2) == '{';
    std::size_t const first = at_ + (braces ? 3u : 2u);
    std::size_t last = first;
    std::size_t const most = braces ? 8 : peek(1) == 'x' ? 2 : 4;
    while (last < in_.size() && last - first < most &&
           in_.substr(last, 1).find_first_of("0123456789abcdefABCDEF") == 0)
      ++last;
    auto const digits = in_.substr(first, last - first);
    bool const a_byte = peek(1) == 'x' && !braces;  // from 80 on it is a piece of a character
    if (digits.empty() || (a_byte && digits.size() == 2 && digits[0] > '7') ||
        (peek(1) == 'u' && digits.size() != 4) || (braces && (last == in_.size() || in_[last] != '}')))
      refuse(in_.substr(at_, 6));
    out_ += "\\x{" + std::string(digits) + "}";
    at_ = last + (braces ? 1 : 0);
  }

  void property(bool in_class) {
    auto const close = in_.find('}', at_);
    if (peek(2) != '{' || close == std::string_view::npos) refuse(in_.substr(at_, 3));
    auto name = in_.substr(at_ + 3, close - at_ - 3);
    bool negated = peek(1) == 'P';
    if (name.starts_with('^')) {
      negated = !negated;
      name.remove_prefix(1);
    }
    constexpr std::string_view kinds =
        "C Cc Cf Cn Co Cs L Ll Lm Lo Lt Lu M Mc Me Mn N Nd Nl No P Pc Pd Pe Pf Pi "
        "Po Ps S Sc Sk Sm So Z Zl Zp Zs ";
    std::string members;
    if (name.size() <= 2 && !name.empty() && kinds.find(std::string(name) + " ") != kinds.npos) {
      members = property_members(name);
    } else {
      // A script: Oniguruma knows one for each character, PCRE2 by default all that use it.
      for (std::string_view const script :
           {"Arabic", "Armenian", "Bengali", "Cyrillic", "Devanagari", "Georgian", "Greek", "Han", "Hangul",
            "Hebrew", "Hiragana", "Katakana", "Khmer", "Lao", "Latin", "Myanmar", "Tamil", "Telugu", "Thai"})
        if (name == script) members = "\\p{sc:" + std::string(name) + "}";
      if (members.empty()) refuse(in_.substr(at_, close + 1 - at_));
      if (name == "Han") members += unicode_additions[unicode_additions.size() - 2].members;
    }
    if (in_class && negated) refuse(in_.substr(at_, close + 1 - at_));
    out_ += in_class ? members : (negated ? "[^" : "[") + members + "]";
    at_ = close + 1;
  }

  std::string_view in_;
  std::string where_;
  std::string out_;
  std::size_t at_ = 0;
};
}  // namespace detail

/// A split pattern of a tokenizer.json (Oniguruma, Ruby syntax) for PCRE2 with UTF and UCP: the same words for
/// every valid text. Throws `io_error` that begins with `where` and names what it does not know.
[[nodiscard]] inline std::string pcre2_pattern(std::string_view pattern, std::string const& where) {
  return detail::pattern_translator(pattern, where).translated();
}

/// A text that stands for itself in a pattern.
[[nodiscard]] inline std::string pcre2_literal(std::string_view text) {
  std::string out;
  for (char const c : text) {
    bool const plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       static_cast<unsigned char>(c) >= 0x80;
    if (!plain) out += '\\';
    out += c;
  }
  return out;
}

}  // namespace accrete::inline v0::data
