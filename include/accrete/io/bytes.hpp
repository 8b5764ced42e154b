#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <type_traits>

namespace accrete::inline v0::io {

static_assert(std::endian::native == std::endian::little,
              "[accrete] io: files are little endian and read in place. Use a little-endian machine");

/// Reads a number at any byte address: the tensors of old safetensors files start at odd ones.
template <class T>
[[nodiscard]] T load(std::byte const* at) {
  static_assert(std::is_trivially_copyable_v<T>);
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

/// Nothing where the product passes 2^63 - 1, the largest size the library can hold.
[[nodiscard]] inline std::optional<std::uint64_t> multiply(std::uint64_t a, std::uint64_t b) {
  constexpr std::uint64_t most = std::uint64_t((std::numeric_limits<std::int64_t>::max)());
  if (a > most || b > most || (a != 0 && b > most / a)) return std::nullopt;
  return a * b;
}

}  // namespace accrete::inline v0::io
