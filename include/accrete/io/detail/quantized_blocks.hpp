#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "accrete/core/half.hpp"
#include "accrete/io/bytes.hpp"

/// From the blocks of GGUF's quantized types to numbers. A scale is a half float (11 bits); its product with a
/// block's own 6 or 8-bit scale and a code of up to 6 bits is exact in binary32, so that each number is rounded
/// once, a fused multiply-add gives the same bits as two operations, and nothing depends on compiler flags.
namespace accrete::inline v0::io::detail {

[[nodiscard]] inline float half_at(std::byte const* at) {
  return half::from_bits(load<std::uint16_t>(at));
}
[[nodiscard]] inline int byte_at(std::byte const* at) {
  return std::to_integer<int>(*at);
}

// Blocks of 32: the scale d (and minimum m), then 4-bit codes, of which byte i holds number i in its low half
// and number i + 16 in its high half.
template <class T>
void unpack_q4_0(std::byte const* block, T* out) {
  float const d = half_at(block);
  for (int i = 0; i < 16; ++i) {
    int const codes = byte_at(block + 2 + i);
    out[i] = T(float((codes & 15) - 8) * d);
    out[i + 16] = T(float((codes >> 4) - 8) * d);
  }
}
template <class T>
void unpack_q4_1(std::byte const* block, T* out) {
  float const d = half_at(block);
  float const m = half_at(block + 2);
  for (int i = 0; i < 16; ++i) {
    int const codes = byte_at(block + 4 + i);
    out[i] = T(float(codes & 15) * d + m);
    out[i + 16] = T(float(codes >> 4) * d + m);
  }
}

// The same with a fifth bit for each number, all 32 in a word of their own before the codes.
[[nodiscard]] inline int fifth_bit(std::uint32_t bits, int i) {
  return int((bits >> i) & 1u) << 4;
}
template <class T>
void unpack_q5_0(std::byte const* block, T* out) {
  float const d = half_at(block);
  auto const high = load<std::uint32_t>(block + 2);
  for (int i = 0; i < 16; ++i) {
    int const codes = byte_at(block + 6 + i);
    out[i] = T(float(((codes & 15) | fifth_bit(high, i)) - 16) * d);
    out[i + 16] = T(float(((codes >> 4) | fifth_bit(high, i + 16)) - 16) * d);
  }
}
template <class T>
void unpack_q5_1(std::byte const* block, T* out) {
  float const d = half_at(block);
  float const m = half_at(block + 2);
  auto const high = load<std::uint32_t>(block + 4);
  for (int i = 0; i < 16; ++i) {
    int const codes = byte_at(block + 8 + i);
    out[i] = T(float((codes & 15) | fifth_bit(high, i)) * d + m);
    out[i + 16] = T(float((codes >> 4) | fifth_bit(high, i + 16)) * d + m);
  }
}
template <class T>
void unpack_q8_0(std::byte const* block, T* out) {
  float const d = half_at(block);
  for (int i = 0; i < 32; ++i) out[i] = T(float(load<std::int8_t>(block + 2 + i)) * d);
}

/// The 6-bit scale and minimum of each of the eight parts of a 256-number block, packed in 12 bytes: those of
/// parts 0 to 3 lie whole in bytes 0 to 3 and 4 to 7, whose two free bits are the upper ones of parts 4 to 7.
struct part_scale {
  int scale;
  int minimum;
};
[[nodiscard]] inline part_scale part_scale_of(std::byte const* packed, int part) {
  if (part < 4) return {byte_at(packed + part) & 63, byte_at(packed + 4 + part) & 63};
  int const low = byte_at(packed + 4 + part);
  return {(low & 15) | ((byte_at(packed + part - 4) >> 2) & 48),
          (low >> 4) | ((byte_at(packed + part) >> 2) & 48)};
}

// Blocks of 256 in eight parts of 32: d and the minimums' scale, the packed part scales, for Q5_K a fifth bit
// of each number (bit p of byte i belongs to number i of part p), then codes, of which 32 bytes hold an even
// part in their low halves and the next one in their high halves.
template <bool HasFifthBit, class T>
void unpack_k_parts(std::byte const* block, T* out) {
  float const d = half_at(block);
  float const dmin = half_at(block + 2);
  std::byte const* const fifth = block + 16;
  std::byte const* const codes = HasFifthBit ? block + 48 : block + 16;
  for (int part = 0; part < 8; ++part) {
    auto const [scale, minimum] = part_scale_of(block + 4, part);
    float const step = d * float(scale);
    float const low = dmin * float(minimum);
    for (int i = 0; i < 32; ++i) {
      int code = (byte_at(codes + part / 2 * 32 + i) >> (part % 2 * 4)) & 15;
      if constexpr (HasFifthBit) code |= ((byte_at(fifth + i) >> part) & 1) << 4;
      out[part * 32 + i] = T(step * float(code) - low);
    }
  }
}
template <class T>
void unpack_q4_k(std::byte const* block, T* out) {
  unpack_k_parts<false>(block, out);
}
template <class T>
void unpack_q5_k(std::byte const* block, T* out) {
  unpack_k_parts<true>(block, out);
}

// A block of 256: 128 bytes with the lower 4 bits of each code, 64 with the upper 2, 16 scales of a byte each
// for 16 numbers, the scale d. In each half of the block, byte i of the 64 lower ones serves numbers i and i +
// 64, byte i of the 32 upper ones numbers i, i + 32, i + 64 and i + 96.
template <class T>
void unpack_q6_k(std::byte const* block, T* out) {
  float const d = half_at(block + 208);
  for (int i = 0; i < 256; ++i) {
    int const half = i / 128;
    int const j = i % 128;
    int const low = (byte_at(block + half * 64 + j % 64) >> (j / 64 * 4)) & 15;
    int const high = (byte_at(block + 128 + half * 32 + j % 32) >> (j / 32 * 2)) & 3;
    auto const scale = load<std::int8_t>(block + 192 + i / 16);
    out[i] = T(d * float(scale) * float((low | high << 4) - 32));
  }
}

}  // namespace accrete::inline v0::io::detail
