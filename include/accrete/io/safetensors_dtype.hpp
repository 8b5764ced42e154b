#pragma once
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "accrete/core/bfloat16.hpp"
#include "accrete/core/view.hpp"
#include "accrete/io/bytes.hpp"

namespace accrete::inline v0::io {

/// Number formats of safetensors, in the order of the table below.
enum class safetensors_dtype : std::uint8_t {
  boolean,
  f4,
  f6_e2m3,
  f6_e3m2,
  u8,
  i8,
  f8_e5m2,
  f8_e4m3,
  f8_e8m0,
  f8_e4m3fnuz,
  f8_e5m2fnuz,
  i16,
  u16,
  f16,
  bf16,
  i32,
  u32,
  f32,
  c64,
  f64,
  i64,
  u64,
};
struct safetensors_layout {
  char const* name;
  std::uint64_t bits;
};
inline constexpr std::array<safetensors_layout, 22> safetensors_layouts{{
    {"BOOL", 8},    {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6},     {"U8", 8},          {"I8", 8},
    {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"I16", 16},
    {"U16", 16},    {"F16", 16},    {"BF16", 16},   {"I32", 32},        {"U32", 32},        {"F32", 32},
    {"C64", 64},    {"F64", 64},    {"I64", 64},    {"U64", 64},
}};
[[nodiscard]] constexpr safetensors_layout layout_of(safetensors_dtype dtype) {
  return safetensors_layouts[std::size_t(dtype)];
}
[[nodiscard]] inline std::string name_of(safetensors_dtype dtype) {
  return layout_of(dtype).name;
}

/// That of a number in memory.
template <class T>
requires std::same_as<T, float> || std::same_as<T, double> || std::same_as<T, bfloat16>
[[nodiscard]] constexpr safetensors_dtype dtype_of() {
  if (std::same_as<T, bfloat16>) return safetensors_dtype::bf16;
  return std::same_as<T, float> ? safetensors_dtype::f32 : safetensors_dtype::f64;
}

namespace detail {

/// Bytes of a tensor; nothing where they overflow or do not fill whole bytes.
[[nodiscard]] inline std::optional<std::uint64_t> tensor_bytes(safetensors_dtype dtype,
                                                               std::vector<index_t> const& shape) {
  std::optional<std::uint64_t> bits = 1;
  for (index_t const n : shape) {
    if (n < 0) return std::nullopt;
    bits = multiply(*bits, std::uint64_t(n));
    if (!bits) return std::nullopt;
  }
  bits = multiply(*bits, layout_of(dtype).bits);
  if (!bits || *bits % 8 != 0) return std::nullopt;
  return *bits / 8;
}
}  // namespace detail

}  // namespace accrete::inline v0::io
