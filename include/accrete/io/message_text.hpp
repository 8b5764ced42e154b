#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "accrete/core/view.hpp"

// How the messages of everything that reads and writes files spell what they name.

namespace accrete::inline v0::io {

namespace detail {
/// Bytes of the UTF-8 character that `text` begins with; 0 if it begins with none.
[[nodiscard]] inline std::size_t character_length(std::string_view text) {
  auto const lead = static_cast<unsigned char>(text.front());
  std::size_t const n = lead < 0x80   ? 1
                        : lead < 0xC2 ? 0
                        : lead < 0xE0 ? 2
                        : lead < 0xF0 ? 3
                        : lead < 0xF5 ? 4
                                      : 0;
  if (n > text.size()) return 0;
  if (n > 1) {  // overlong forms, surrogates and what lies past U+10FFFF show in the second byte
    auto const second = static_cast<unsigned char>(text[1]);
    if ((lead == 0xE0 && second < 0xA0) || (lead == 0xED && second > 0x9F) || (lead == 0xF0 && second < 0x90) ||
        (lead == 0xF4 && second > 0x8F))
      return 0;
  }
  for (std::size_t i = 1; i < n; ++i)
    if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) return 0;
  return n;
}
}  // namespace detail

/// A name out of a file, fit for a one-line message: control characters and bytes that are no UTF-8 escaped,
/// long ones cut.
[[nodiscard]] inline std::string name_text(std::string_view text) {
  constexpr std::size_t longest = 120;
  constexpr char const* hex = "0123456789abcdef";
  std::string out = "'";
  auto const shown = text.substr(0, longest);
  for (std::size_t i = 0; i < shown.size();) {
    unsigned const byte = static_cast<unsigned char>(shown[i]);
    std::size_t const n = detail::character_length(shown.substr(i));
    i += n == 0 ? 1 : n;
    if (n != 0 && byte >= 0x20 && byte != 0x7f) {
      out += shown.substr(i - n, n);
    } else {
      out += "\\x";
      out += hex[byte >> 4];
      out += hex[byte & 15];
    }
  }
  if (text.size() > longest) out += "...";
  return out + "'";
}
[[nodiscard]] inline std::string path_text(std::filesystem::path const& path) {
  std::string const text = path.string();  // never cut: the reader needs all of it to find the file
  std::string out = "'";
  for (char const c : text) out += (static_cast<unsigned char>(c) < 0x20 ? '?' : c);
  return out + "'";
}

[[nodiscard]] inline std::string bytes_text(std::uint64_t count) {
  return std::to_string(count) + " bytes";
}
[[nodiscard]] inline std::string shape_text(std::span<index_t const> shape) {
  std::string text = "[";
  for (std::size_t d = 0; d < shape.size(); ++d) text += (d == 0 ? "" : ", ") + std::to_string(shape[d]);
  return text + "]";
}

}  // namespace accrete::inline v0::io
