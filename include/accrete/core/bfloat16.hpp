#pragma once
#include <bit>
#include <cstdint>
#include <type_traits>

namespace accrete::inline v0 {

/// The upper half of a binary32: its range with eight bits of precision. A format to store and to multiply
/// matrices in; everything else is computed in float, to which it converts without loss.
struct bfloat16 {
  std::uint16_t bits;

  bfloat16() = default;
  /// Rounds to the nearest, ties to even; a NaN stays one.
  template <class F>
    requires std::is_arithmetic_v<F>
  constexpr explicit bfloat16(F value) : bits(rounded(static_cast<float>(value))) {}
  [[nodiscard]] static constexpr bfloat16 from_bits(std::uint16_t b) {
    bfloat16 made(0);
    made.bits = b;
    return made;
  }
  constexpr operator float() const { return std::bit_cast<float>(std::uint32_t(bits) << 16); }

 private:
  // Without a branch, so that loops over it become vector instructions.
  static constexpr std::uint16_t rounded(float f) {
    auto const b = std::bit_cast<std::uint32_t>(f);
    std::uint32_t const nearest = b + 0x7FFFU + ((b >> 16) & 1U);
    std::uint32_t const quiet = b | 0x0040'0000U;
    return std::uint16_t(((b & 0x7FFF'FFFFU) > 0x7F80'0000U ? quiet : nearest) >> 16);
  }
};

static_assert(float(bfloat16::from_bits(0x3F80)) == 1.0F && float(bfloat16::from_bits(0xC049)) == -3.140625F);
static_assert(bfloat16(1.0).bits == 0x3F80 && bfloat16(1.00390625F).bits == 0x3F80 &&
              bfloat16(1.01171875F).bits == 0x3F82 && bfloat16(3.4028235e38F).bits == 0x7F80);

}  // namespace accrete::inline v0
