#pragma once
#include <cstdint>
#include <string>

#include "accrete/core/rng.hpp"

namespace test {

inline void append_code_point(std::string& out, std::uint32_t c) {
  if (c < 0x80) {
    out += char(c);
  } else if (c < 0x800) {
    out += char(0xC0u | c >> 6);
    out += char(0x80u | (c & 0x3Fu));
  } else if (c < 0x10000) {
    out += char(0xE0u | c >> 12);
    out += char(0x80u | (c >> 6 & 0x3Fu));
    out += char(0x80u | (c & 0x3Fu));
  } else {
    out += char(0xF0u | c >> 18);
    out += char(0x80u | (c >> 12 & 0x3Fu));
    out += char(0x80u | (c >> 6 & 0x3Fu));
    out += char(0x80u | (c & 0x3Fu));
  }
}

/// Valid UTF-8 of all lengths and planes, rich in what split patterns look at: white space, digits,
/// apostrophes.
inline std::string random_text(std::uint64_t number, std::uint32_t last_code_point = 0x10FFFF) {
  accrete::random_stream const stream(accrete::seed{1}, "random text", number);
  std::string out;
  auto const length = stream.below(0, 60);
  for (std::uint64_t i = 1; i <= length; ++i) {
    auto const draw = [&](std::uint64_t from, std::uint64_t to) {
      return std::uint32_t(from + stream.below(2 * i, to - from));
    };
    std::uint32_t const spaces[] = {9, 10, 13, 32, 32, 0x85, 0xA0, 0x180E, 0x2003, 0x2028, 0x3000};
    switch (stream.below(2 * i + 1, 8)) {
      case 0:
        append_code_point(out, spaces[draw(0, 11)]);
        break;
      case 1:
        append_code_point(out, draw('0', '9' + 1));
        break;
      case 2:
        out += "'sS'tT'rReE'vVmM'lLlLdD"[draw(0, 23)];
        break;
      case 3:
        append_code_point(out, draw('a', 'z' + 1));
        break;
      case 4:
        append_code_point(out, draw(0, 0x80));
        break;
      case 5:
        append_code_point(out, draw(0x80, 0x800));
        break;
      case 6: {
        auto const c = draw(0x800, 0x10000);
        append_code_point(out, c >= 0xD800 && c < 0xE000 ? c - 0xD000 : c);
        break;
      }
      default:
        append_code_point(out, draw(0x10000, last_code_point + 1));
        break;
    }
  }
  return out;
}

}  // namespace test
