#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "accrete/core/config.hpp"
#include "accrete/core/error.hpp"
#include "accrete/io/json.hpp"
#include "accrete/io/message_text.hpp"

namespace accrete::inline v0::io {

/// What nlohmann's parser calls as it goes along the text. Used by json::parse alone.
class json_reader {
 public:
  json_reader(json& root, std::string const& where) : root_(root), where_(where) {}

  bool null() { return scalar(json::kind::null, {}); }
  bool boolean(bool v) { return scalar(json::kind::boolean, v ? "true" : "false"); }
  bool number_integer(std::int64_t v) {
    return scalar(json::kind::number, v == 0 ? "-0" : std::to_string(v));  // a number with a minus
  }
  bool number_unsigned(std::uint64_t v) { return scalar(json::kind::number, std::to_string(v)); }
  bool number_float(double, std::string const& digits) {
    std::string text = digits;  // as written, but for a locale's own decimal point
    for (char& c : text)
      if (std::string_view("0123456789+-eE").find(c) == std::string_view::npos) c = '.';
    return scalar(json::kind::number, std::move(text));
  }
  bool string(std::string& v) { return scalar(json::kind::string, std::move(v)); }
  bool binary(std::vector<std::uint8_t>&) { return false; }  // never in text
  bool start_object(std::size_t) { return open(json::kind::object); }
  bool start_array(std::size_t) { return open(json::kind::array); }
  bool key(std::string& v) {
    key_ = std::move(v);
    return true;
  }
  bool end_array() {
    open_.pop_back();
    return true;
  }
  bool end_object() {
    auto& items = open_.back()->items_;
    std::sort(items.begin(), items.end(), [](json const& a, json const& b) { return a.key_ < b.key_; });
    auto const twice = std::adjacent_find(items.begin(), items.end(),
                                          [](json const& a, json const& b) { return a.key_ == b.key_; });
    if (twice != items.end())
      throw io_error(where_, "key " + name_text(twice->key_) + " twice", "each key once");
    return end_array();
  }
  [[noreturn]] bool parse_error(std::size_t byte, std::string const&, nlohmann::json::exception const& e) {
    // "[id] parse error at ..: syntax error while parsing .. - GOT", and then "; last read: PIECE", where
    // nothing after it is to be trusted, since the piece is of unknown length and bytes, or "; expected WANT",
    // behind which such a piece may stand as well.
    std::string_view words = e.what();
    auto const drop_through = [&words](std::string_view mark) {
      if (auto const at = words.find(mark); at != words.npos) words.remove_prefix(at + mark.size());
    };
    drop_through("] ");
    drop_through(" - ");
    auto const got = words.substr(0, std::min<std::size_t>(words.find(';'), 120));
    words.remove_prefix(got.size());
    constexpr std::string_view expected = "; expected ";
    bool const says = words.starts_with(expected);
    if (says) words.remove_prefix(expected.size());
    throw io_error(where_, std::string(got) + " at byte " + std::to_string(byte) + " of the JSON",
                   says ? std::string(words.substr(0, words.find(';'))) : "JSON");
  }

 private:
  json& place() {
    json& item = open_.empty() ? root_ : open_.back()->items_.emplace_back();
    item.key_ = std::exchange(key_, {});
    return item;
  }
  bool scalar(json::kind kind, std::string text) {
    json& item = place();
    item.kind_ = kind;
    item.text_ = std::move(text);
    return true;
  }
  bool open(json::kind kind) {
    if (open_.size() == 64) throw io_error(where_, "more than 64 levels", "less nesting");
    json& item = place();
    item.kind_ = kind;
    open_.push_back(&item);  // stays there: its parent takes no other item while it is open
    return true;
  }

  json& root_;
  std::string const& where_;
  std::vector<json*> open_;
  std::string key_;
};

ACCRETE_INLINE json json::parse(std::string_view text, std::string const& where) {
  if (text.starts_with("\xEF\xBB\xBF")) throw io_error(where, "a byte order mark", "JSON", "write it without");
  json root;
  json_reader reader(root, where);
  nlohmann::json::sax_parse(text.data(), text.data() + text.size(), &reader);
  return root;
}

ACCRETE_INLINE std::string json_quote(std::string_view text, std::string const& where) {
  try {
    return nlohmann::json(text).dump();
  } catch (nlohmann::json::exception const&) {
    throw io_error(where, name_text(text), "UTF-8");
  }
}

}  // namespace accrete::inline v0::io
