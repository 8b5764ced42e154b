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
#include "accrete/io/message_text.hpp"

namespace accrete::inline v0::io {

/// A JSON value out of a file, read by nlohmann::json and stricter where leniency would hide a fault: a key
/// given twice, a byte order mark and nesting past 64 levels are errors like invalid UTF-8 and anything after
/// the value. Numbers keep their text, so 2^53 + 1 stays itself and 1.5 is never a size. What is asked of it
/// and is not there is an io_error of one line.
class json {
 public:
  enum class kind : std::uint8_t { null, boolean, number, string, array, object };

  json() = default;
  /// Throws io_error "`where`: got .., expected ..", with the byte where the text is no JSON.
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
    return digits_as<index_t>(where, "a whole number from 0 to 2^63 - 1");
  }
  /// A seed or a hash: digits only, below 2^64.
  [[nodiscard]] std::uint64_t as_unsigned(std::string const& where) const {
    return digits_as<std::uint64_t>(where, "a whole number from 0 to 2^64 - 1");
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
        return "the string " + name_text(text_);
      default:
        return text_.size() > 40 ? text_.substr(0, 40) + "..." : text_;
    }
  }

 private:
  friend class json_reader;

  template <class T>
  [[nodiscard]] T digits_as(std::string const& where, char const* want) const {
    T value = 0;
    bool const digits = std::all_of(text_.begin(), text_.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (kind_ != kind::number || !digits || !whole(value)) mismatch(where, want);
    return value;
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

/// A string as JSON writes it, quotes included. Throws io_error that begins with `where` if it is not UTF-8.
[[nodiscard]] std::string json_quote(std::string_view text, std::string const& where = "io::json_quote");

}  // namespace accrete::inline v0::io

#if !defined(ACCRETE_COMPILED)
#include "accrete/io/detail/json_body.hpp"
#endif
