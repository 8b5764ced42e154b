#pragma once
#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "accrete/core/error.hpp"
#include "accrete/core/view.hpp"
#include "accrete/io/detail/bytes.hpp"

namespace accrete::inline v0::io {

/// A JSON value (RFC 8259), for reading model files. Stricter than usual where leniency would hide a fault: a
/// key given twice, invalid UTF-8, lone surrogates, anything after the value and nesting past 64 levels are
/// errors. Numbers keep their text, so 2^53 + 1 stays itself and 1.5 is never a size. Own, since a general JSON
/// library takes longer to compile than Eigen, and whoever opens a model includes this.
class json {
 public:
  enum class kind : std::uint8_t { null, boolean, number, string, array, object };

  json() = default;
  /// Throws io_error "`where`: got .. at byte n, expected ..".
  [[nodiscard]] static json parse(std::string_view text, std::string const& where);

  [[nodiscard]] kind type() const { return kind_; }
  [[nodiscard]] bool is_null() const { return kind_ == kind::null; }
  [[nodiscard]] bool is_object() const { return kind_ == kind::object; }
  [[nodiscard]] bool is_string() const { return kind_ == kind::string; }
  [[nodiscard]] bool is_array() const { return kind_ == kind::array; }

  /// Elements of an array, or values of an object in the order of their keys.
  [[nodiscard]] std::vector<json> const& items() const { return items_; }
  /// The key under which this value lies in its object.
  [[nodiscard]] std::string const& key() const { return key_; }
  /// A member of an object; nullptr where there is none, or this is no object.
  [[nodiscard]] json const* find(std::string_view key) const {
    if (kind_ != kind::object) return nullptr;
    auto const at = std::lower_bound(items_.begin(), items_.end(), key,
                                     [](json const& item, std::string_view k) { return item.key_ < k; });
    return at != items_.end() && at->key_ == key ? &*at : nullptr;
  }

  [[nodiscard]] std::string const& as_string(std::string const& where) const {
    if (kind_ != kind::string) mismatch(where, "a string");
    return text_;
  }
  [[nodiscard]] bool as_bool(std::string const& where) const {
    if (kind_ != kind::boolean) mismatch(where, "true or false");
    return text_ == "true";
  }
  /// A size: digits only, below 2^63.
  [[nodiscard]] index_t as_index(std::string const& where) const {
    index_t value = 0;
    if (kind_ != kind::number || !digits_only() || !whole(value))
      mismatch(where, "a whole number from 0 to 2^63 - 1");
    return value;
  }
  [[nodiscard]] double as_double(std::string const& where) const {
    double value = 0;
    if (kind_ != kind::number || !whole(value)) mismatch(where, "a number");
    return value;
  }
  /// For messages: what this is.
  [[nodiscard]] std::string describe() const {
    switch (kind_) {
      case kind::null:
        return "null";
      case kind::array:
        return "an array";
      case kind::object:
        return "an object";
      case kind::string:
        return "the string " + detail::name_text(text_);
      default:
        return text_.size() > 40 ? text_.substr(0, 40) + "..." : text_;
    }
  }

 private:
  friend class json_parser;

  [[nodiscard]] bool digits_only() const {
    return std::all_of(text_.begin(), text_.end(), [](char c) { return c >= '0' && c <= '9'; });
  }
  template <class T>
  [[nodiscard]] bool whole(T& value) const {
    auto const [end, code] = std::from_chars(text_.data(), text_.data() + text_.size(), value);
    return code == std::errc{} && end == text_.data() + text_.size();
  }
  [[noreturn]] void mismatch(std::string const& where, std::string const& want) const {
    throw io_error(where, describe(), want);
  }

  kind kind_ = kind::null;
  std::string key_;
  std::string text_;  // of a string (decoded), a number or a boolean
  std::vector<json> items_;
};

/// Used by json::parse alone.
class json_parser {
 public:
  json_parser(std::string_view text, std::string const& where) : text_(text), where_(where) {}

  json document() {
    json out;
    value(out, 0);
    space();
    if (at_ != text_.size()) fail("more", "the end");
    return out;
  }

 private:
  void value(json& out, int depth) {
    space();
    if (depth > 64) fail("more than 64 levels", "less nesting");
    if (at_ == text_.size()) fail("the end", "a value");
    switch (text_[at_]) {
      case '{':
        return object(out, depth);
      case '[':
        return array(out, depth);
      case '"':
        out.kind_ = json::kind::string;
        return string(out.text_);
      case 't':
        return word(out, "true", json::kind::boolean);
      case 'f':
        return word(out, "false", json::kind::boolean);
      case 'n':
        return word(out, "null", json::kind::null);
      default:
        return number(out);
    }
  }

  void object(json& out, int depth) {
    out.kind_ = json::kind::object;
    ++at_;
    space();
    if (take('}')) return;
    do {
      space();
      std::string key;
      if (at_ == text_.size() || text_[at_] != '"') fail(here(), "a key in double quotes");
      string(key);
      space();
      if (!take(':')) fail(here(), "':' after a key");
      json& item = out.items_.emplace_back();
      item.key_ = std::move(key);
      value(item, depth + 1);
      space();
    } while (take(','));
    if (!take('}')) fail(here(), "',' or '}'");
    auto& items = out.items_;
    std::sort(items.begin(), items.end(), [](json const& a, json const& b) { return a.key_ < b.key_; });
    auto const twice = std::adjacent_find(items.begin(), items.end(),
                                          [](json const& a, json const& b) { return a.key_ == b.key_; });
    if (twice != items.end()) fail("key " + detail::name_text(twice->key_) + " twice", "each key once");
  }

  void array(json& out, int depth) {
    out.kind_ = json::kind::array;
    ++at_;
    space();
    if (take(']')) return;
    do {
      value(out.items_.emplace_back(), depth + 1);
      space();
    } while (take(','));
    if (!take(']')) fail(here(), "',' or ']'");
  }

  void word(json& out, std::string_view want, json::kind kind) {
    if (text_.substr(at_, want.size()) != want) fail(here(), "a value");
    at_ += want.size();
    out.kind_ = kind;
    out.text_ = want;
  }

  void number(json& out) {
    std::size_t const first = at_;
    take('-');
    if (!take('0') && digits() == 0) {
      at_ = first;
      fail(here(), "a value");
    }
    if (take('.') && digits() == 0) fail(here(), "digits after '.'");
    if (take('e') || take('E')) {
      if (!take('+')) take('-');
      if (digits() == 0) fail(here(), "an exponent's digits");
    }
    out.kind_ = json::kind::number;
    out.text_ = text_.substr(first, at_ - first);
  }
  std::size_t digits() {
    std::size_t n = 0;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) ++n;
    return n;
  }

  void string(std::string& out) {
    ++at_;
    for (;;) {
      if (at_ == text_.size()) fail("the end", "the end of a string");
      auto const c = static_cast<unsigned char>(text_[at_]);
      if (c == '"') {
        ++at_;
        return;
      }
      if (c < 0x20) fail("a control character", "it escaped");
      if (c == '\\') {
        escape(out);
      } else if (c < 0x80) {
        out += char(c);
        ++at_;
      } else {
        std::size_t const n = sequence();
        if (n == 0) fail("bytes that are not UTF-8", "UTF-8");
        out.append(text_.substr(at_, n));
        at_ += n;
      }
    }
  }

  // Length of the valid UTF-8 sequence of more than one byte here; 0 if it is none (overlong, surrogate, too
  // high).
  [[nodiscard]] std::size_t sequence() const {
    auto const byte = [&](std::size_t i) {
      return at_ + i < text_.size() ? static_cast<unsigned char>(text_[at_ + i]) : 0u;
    };
    unsigned const b = byte(0);
    std::size_t const n = b >= 0xC2 && b <= 0xDF   ? 2
                          : b >= 0xE0 && b <= 0xEF ? 3
                          : b >= 0xF0 && b <= 0xF4 ? 4
                                                   : 0;
    unsigned const low = b == 0xE0 ? 0xA0 : b == 0xF0 ? 0x90 : 0x80;
    unsigned const high = b == 0xED ? 0x9F : b == 0xF4 ? 0x8F : 0xBF;
    if (n == 0 || byte(1) < low || byte(1) > high) return 0;
    for (std::size_t i = 2; i < n; ++i)
      if (byte(i) < 0x80 || byte(i) > 0xBF) return 0;
    return n;
  }

  void escape(std::string& out) {
    ++at_;
    if (at_ == text_.size()) fail("the end", "an escaped character");
    char const c = text_[at_++];
    constexpr std::string_view plain = "\"\\/bfnrt";
    constexpr std::string_view meaning = "\"\\/\b\f\n\r\t";
    if (auto const i = plain.find(c); i != std::string_view::npos) {
      out += meaning[i];
      return;
    }
    if (c != 'u') fail("an unknown escape", "one of \\\" \\\\ \\/ \\b \\f \\n \\r \\t \\u");
    std::uint32_t code = hex4();
    if (code >= 0xDC00 && code <= 0xDFFF) fail("half of a surrogate pair", "both");
    if (code >= 0xD800 && code <= 0xDBFF) {
      if (text_.substr(at_, 2) != "\\u") fail("half of a surrogate pair", "both");
      at_ += 2;
      std::uint32_t const second = hex4();
      if (second < 0xDC00 || second > 0xDFFF) fail("half of a surrogate pair", "both");
      code = 0x10000 + ((code - 0xD800) << 10) + (second - 0xDC00);
    }
    auto const put = [&](std::uint32_t bits) { out += static_cast<char>(static_cast<unsigned char>(bits)); };
    if (code < 0x80) return put(code);
    if (code < 0x800) {
      put(0xC0 | (code >> 6));
    } else {
      if (code < 0x10000) {
        put(0xE0 | (code >> 12));
      } else {
        put(0xF0 | (code >> 18));
        put(0x80 | ((code >> 12) & 63));
      }
      put(0x80 | ((code >> 6) & 63));
    }
    put(0x80 | (code & 63));
  }
  std::uint32_t hex4() {
    std::uint32_t code = 0;
    char const* const first = text_.data() + at_;
    if (text_.size() - at_ < 4) fail("the end", "four hexadecimal digits");
    auto const [end, error] = std::from_chars(first, first + 4, code, 16);
    if (error != std::errc{} || end != first + 4) fail("an unfinished \\u", "four hexadecimal digits");
    at_ += 4;
    return code;
  }

  void space() {
    while (at_ < text_.size() && std::string_view(" \t\n\r").find(text_[at_]) != std::string_view::npos) ++at_;
  }
  bool take(char c) {
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  [[nodiscard]] std::string here() const {
    return at_ == text_.size() ? std::string("the end") : detail::name_text(text_.substr(at_, 1));
  }
  [[noreturn]] void fail(std::string const& got, std::string const& want) const {
    throw io_error(where_, got + " at byte " + std::to_string(at_) + " of the JSON", want);
  }

  std::string_view text_;
  std::string const& where_;
  std::size_t at_ = 0;
};

inline json json::parse(std::string_view text, std::string const& where) {
  return json_parser(text, where).document();
}

/// A string as JSON writes it, quotes included. The bytes must be UTF-8; they are not checked.
[[nodiscard]] inline std::string json_quote(std::string_view text) {
  std::string out = "\"";
  for (char const c : text) {
    auto const byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20) {
      out += "\\u00";
      out += "0123456789abcdef"[byte >> 4];
      out += "0123456789abcdef"[byte & 15];
    } else {
      out += c;
    }
  }
  return out + "\"";
}

}  // namespace accrete::inline v0::io
