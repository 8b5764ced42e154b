#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace accrete::inline v0::data {

/// The offset of the first byte that starts no valid UTF-8 sequence (overlong forms, surrogates and code points
/// past U+10FFFF are invalid), or `std::string_view::npos`.
inline std::size_t find_invalid_utf8(std::string_view text) {
  auto const* const bytes = reinterpret_cast<unsigned char const*>(text.data());
  std::size_t const size = text.size();
  std::size_t i = 0;
  while (i < size) {
    if (size - i >= 8) {  // eight ASCII characters at a time
      std::uint64_t eight = 0;
      std::memcpy(&eight, bytes + i, 8);
      if ((eight & 0x8080808080808080ull) == 0) {
        i += 8;
        continue;
      }
    }
    unsigned const lead = bytes[i];
    if (lead < 0x80) {
      ++i;
      continue;
    }
    // Only the second byte's range depends on the first (Unicode 15, table 3-7).
    std::size_t length = 0;
    unsigned low = 0x80, high = 0xBF;
    if (lead >= 0xC2 && lead <= 0xDF) {
      length = 2;
    } else if (lead >= 0xE0 && lead <= 0xEF) {
      length = 3;
      if (lead == 0xE0) low = 0xA0;
      if (lead == 0xED) high = 0x9F;
    } else if (lead >= 0xF0 && lead <= 0xF4) {
      length = 4;
      if (lead == 0xF0) low = 0x90;
      if (lead == 0xF4) high = 0x8F;
    } else {
      return i;
    }
    if (size - i < length || bytes[i + 1] < low || bytes[i + 1] > high) return i;
    for (std::size_t k = 2; k < length; ++k)
      if ((bytes[i + k] & 0xC0u) != 0x80u) return i;
    i += length;
  }
  return std::string_view::npos;
}

/// Appends one code point below U+0800 and above U+007F, or an ASCII character, as UTF-8.
template <class String>
void append_utf8(String& out, std::uint32_t code_point) {
  if (code_point < 0x80) {
    out += char(code_point);
  } else {
    out += char(0xC0u | (code_point >> 6));
    out += char(0x80u | (code_point & 0x3Fu));
  }
}

}  // namespace accrete::inline v0::data
