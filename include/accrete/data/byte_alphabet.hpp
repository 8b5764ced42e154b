#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "accrete/data/utf8.hpp"

namespace accrete::inline v0::data {

/// GPT-2's way to write any byte as a visible character, so that vocabulary files are text: printable Latin-1
/// characters stand for themselves, the other 68 bytes for U+0100 and up, in order. A space is U+0120.
struct byte_alphabet {
  std::array<std::uint16_t, 256> character{};  // byte -> code point
  std::array<std::int16_t, 0x144> byte{};      // code point -> byte, -1 where none

  constexpr byte_alphabet() {
    for (auto& b : byte) b = -1;
    std::uint16_t next = 0x100;
    for (unsigned b = 0; b < 256; ++b) {
      bool const printable = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
      character[b] = printable ? std::uint16_t(b) : next++;
      byte[character[b]] = std::int16_t(b);
    }
  }

  /// Bytes as they stand in a vocabulary.
  [[nodiscard]] std::string write(std::string_view bytes) const {
    std::string out;
    for (char const c : bytes) append_utf8(out, character[static_cast<unsigned char>(c)]);
    return out;
  }
  /// The bytes of a vocabulary entry; nothing when a character is not of this alphabet.
  [[nodiscard]] std::optional<std::string> read(std::string_view entry) const {
    std::string out;
    out.reserve(entry.size());
    for (std::size_t i = 0; i < entry.size(); ++i) {
      unsigned code = static_cast<unsigned char>(entry[i]);
      if (code >= 0x80) {  // the whole alphabet lies below U+0800: two bytes
        if ((code & 0xE0u) != 0xC0u || i + 1 == entry.size()) return std::nullopt;
        code = (code & 0x1Fu) << 6 | (static_cast<unsigned char>(entry[++i]) & 0x3Fu);
      }
      if (code >= byte.size() || byte[code] < 0) return std::nullopt;
      out += char(byte[code]);
    }
    return out;
  }
};
inline constexpr byte_alphabet gpt2_bytes{};

static_assert(gpt2_bytes.character[' '] == 0x120 && gpt2_bytes.character['\n'] == 0x10A &&
              gpt2_bytes.character['A'] == 'A' && gpt2_bytes.character[0xAD] == 0x143);

}  // namespace accrete::inline v0::data
