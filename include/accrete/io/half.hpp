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

static_assert(half_to_float(0x3C00) == 1.0f && half_to_float(0xC000) == -2.0f &&
              half_to_float(0x0001) == 0x1p-24f && half_to_float(0x03FF) == 1023 * 0x1p-24f &&
              half_to_float(0x7BFF) == 65504.0f);
}  // namespace accrete::inline v0::io
