#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "accrete/core/error.hpp"
#include "accrete/core/view.hpp"
#include "accrete/io/json.hpp"
#include "accrete/io/message_text.hpp"

namespace accrete::inline v0::io {

/// A JSON value with the place it has in its file, so that messages say where. The value has to outlive it. A
/// member that is missing is null, as if the file said so: what reads a file mostly means the same by both.
struct placed_json {
  json const& value;
  std::string where;            ///< begins a message: "io::config 'm/config.json': rope_scaling"
  std::string_view mark = ".";  ///< stands between this place and a key

  [[nodiscard]] placed_json at(std::string_view key) const {
    static json const none;
    json const* const found = value.find(key);
    return {found == nullptr ? none : *found, where + std::string(mark) + std::string(key)};
  }
  /// The same for a key that is itself out of the file.
  [[nodiscard]] placed_json at_name(std::string_view key) const {
    return {at(key).value, where + std::string(mark) + name_text(key)};
  }
  [[nodiscard]] bool is_null() const { return value.is_null(); }

  /// A member without which nothing can be read on; io_error where it is missing or null.
  [[nodiscard]] placed_json required(std::string_view key, std::string const& expected = "it",
                                     std::string const& hint = "") const {
    auto found = at(key);
    if (found.is_null()) throw io_error(where, "no " + std::string(key), expected, hint);
    return found;
  }

  /// Each of these throws io_error on a value of another type.
  [[nodiscard]] bool as_bool() const { return value.as_bool(where); }
  [[nodiscard]] double as_double() const { return value.as_double(where); }
  [[nodiscard]] index_t as_index() const { return value.as_index(where); }
  [[nodiscard]] std::string const& as_string() const { return value.as_string(where); }
  [[nodiscard]] std::vector<placed_json> as_list() const {
    if (!value.is_array()) throw io_error(where, value.describe(), "an array");
    std::vector<placed_json> all;
    for (auto const& item : value.items())
      all.push_back({item, where + "[" + std::to_string(all.size()) + "]"});
    return all;
  }
  /// A member that may be missing.
  [[nodiscard]] bool flag(std::string_view key, bool otherwise = false) const {
    auto const v = at(key);
    return v.is_null() ? otherwise : v.as_bool();
  }
};

}  // namespace accrete::inline v0::io
