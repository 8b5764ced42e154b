#pragma once
#include <cstddef>
#include <string>
#include <string_view>

#include "accrete/core/error.hpp"
#include "accrete/io/json.hpp"

namespace accrete::inline v0::data {

/// Calls `visit(std::string const& text, std::size_t line)` with the field "text" of every line of a JSON-lines
/// file, lines counted from 1; blank lines are passed over. `where` begins the messages. Throws `io_error`
/// naming the line that is no object with such a field.
template <class Visit>
void for_each_json_text(std::string_view lines, std::string const& where, Visit&& visit) {
  std::size_t number = 0;
  for (std::size_t at = 0; at < lines.size();) {
    std::string_view const line = lines.substr(at, lines.find('\n', at) - at);
    at += line.size() + 1;
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    std::string const here = where + ":" + std::to_string(number);
    auto const value = io::json::parse(line, here);
    auto const* const text = value.find("text");
    if (text == nullptr)
      throw io_error(here, value.is_object() ? "no \"text\"" : value.describe(), "an object with a \"text\"");
    visit(text->as_string(here + ", \"text\""), number);
  }
}

}  // namespace accrete::inline v0::data
