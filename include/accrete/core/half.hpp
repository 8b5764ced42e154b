#pragma once
#include <bit>
#include <cstdint>
#include <type_traits>

namespace accrete::inline v0 {

/// IEEE binary16: eleven bits of precision up to 65,504. A format to store in; everything is computed in float,
/// to which it converts without loss, subnormals, infinities and NaN included.
struct half {
  std::uint16_t bits;

  half() = default;
  /// Rounds to the nearest, ties to even; what is too large becomes an infinity, a NaN stays one.
  template <class F>
  requires std::is_arithmetic_v<F>
  constexpr explicit half(F value) : bits(rounded(static_cast<float>(value))) {}
  [[nodiscard]] static constexpr half from_bits(std::uint16_t b) {
    half made(0);
    made.bits = b;
    return made;
  }
  constexpr operator float() const {
    std::uint32_t const sign = std::uint32_t(bits & 0x8000U) << 16;
    std::uint32_t const exponent = (bits >> 10) & 0x1FU;
    std::uint32_t const mantissa = bits & 0x3FFU;
    if (exponent == 31) return std::bit_cast<float>(sign | 0x7F80'0000U | (mantissa << 13));
    if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
    float const subnormal = float(mantissa) * 0x1p-24F;  // zero or subnormal: a product that does not round
    return sign != 0 ? -subnormal : subnormal;
  }

 private:
  static constexpr std::uint16_t rounded(float f) {
    auto const b = std::bit_cast<std::uint32_t>(f);
    std::uint32_t const sign = (b >> 16) & 0x8000U;
    std::uint32_t const size = b & 0x7FFF'FFFFU;
    if (size > 0x7F80'0000U) return std::uint16_t(sign | 0x7E00U);
    if (size >= 0x4780'0000U) return std::uint16_t(sign | 0x7C00U);  // 2^16 and more
    if (size < 0x3880'0000U) {  // below 2^-14: the sum's last place is that of the smallest subnormal
      float const aligned = std::bit_cast<float>(size) + 0.5F;
      return std::uint16_t(sign | (std::bit_cast<std::uint32_t>(aligned) - 0x3F00'0000U));
    }
    // A carry out of the mantissa makes the next exponent, and 65,520 the infinity.
    return std::uint16_t(sign | ((size - 0x3800'0000U + 0xFFFU + ((size >> 13) & 1U)) >> 13));
  }
};

static_assert(half::from_bits(0x3C00) == 1.0F && half::from_bits(0xC000) == -2.0F &&
              half::from_bits(0x0001) == 0x1p-24F && half::from_bits(0x03FF) == 1023 * 0x1p-24F &&
              half::from_bits(0x7BFF) == 65504.0F);
static_assert(half(1.0).bits == 0x3C00 && half(-2.0).bits == 0xC000 && half(0x1p-25F).bits == 0 &&
              half(0x1.8p-25F).bits == 1 && half(0x1p-14F).bits == 0x0400 && half(65519.0F).bits == 0x7BFF &&
              half(65520.0F).bits == 0x7C00 && half(-0.0F).bits == 0x8000 && half(2049.0F).bits == 0x6800 &&
              half(2051.0F).bits == 0x6802);

}  // namespace accrete::inline v0
