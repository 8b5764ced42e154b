#pragma once
#include <bit>
#include <cstdint>

namespace accrete::inline v0::io {

/// IEEE binary16 to binary32; exact, subnormals, infinities and NaN included.
[[nodiscard]] constexpr float half_to_float(std::uint16_t h) {
  std::uint32_t const sign = std::uint32_t(h & 0x8000u) << 16;
  std::uint32_t const exponent = (h >> 10) & 0x1Fu;
  std::uint32_t const mantissa = h & 0x3FFu;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7F800000u | (mantissa << 13));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  float const subnormal = float(mantissa) * 0x1p-24f;  // zero or subnormal: a product that does not round
  return sign != 0 ? -subnormal : subnormal;
}

/// The upper half of a binary32, as it is.
[[nodiscard]] constexpr float bfloat16_to_float(std::uint16_t b) {
  return std::bit_cast<float>(std::uint32_t(b) << 16);
}

/// Rounds to the nearest, ties to even; a NaN stays one.
[[nodiscard]] constexpr std::uint16_t float_to_bfloat16(float f) {
  auto const bits = std::bit_cast<std::uint32_t>(f);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return std::uint16_t((bits >> 16) | 0x0040u);
  return std::uint16_t((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

static_assert(half_to_float(0x3C00) == 1.0f && half_to_float(0xC000) == -2.0f &&
              half_to_float(0x0001) == 0x1p-24f && half_to_float(0x03FF) == 1023 * 0x1p-24f &&
              half_to_float(0x7BFF) == 65504.0f);
static_assert(bfloat16_to_float(0x3F80) == 1.0f && bfloat16_to_float(0xC049) == -3.140625f);

static_assert(float_to_bfloat16(1.0f) == 0x3F80 && float_to_bfloat16(1.00390625f) == 0x3F80 &&
              float_to_bfloat16(1.01171875f) == 0x3F82 && float_to_bfloat16(3.4028235e38f) == 0x7F80);

}  // namespace accrete::inline v0::io
