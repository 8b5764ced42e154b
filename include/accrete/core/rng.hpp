#pragma once
#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <string_view>

namespace accrete::inline v0 {

/// The one number a run is drawn from.
struct seed {
  std::uint64_t value = 42;
};

/// A counter-based stream: value number `i` is a pure function of (seed, purpose, index, i), so nothing depends
/// on what else was drawn, in which order, or by how many threads. Philox 4x32-10 (Salmon et al., SC 2011);
/// the standard library has it from C++26 on.
class random_stream {
 public:
  /// `purpose` names what is drawn ("init/mlp.down_proj", "order"); `index` tells its instances apart (a
  /// layer's creation id, an epoch).
  constexpr random_stream(seed s, std::string_view purpose, std::uint64_t index = 0)
      : key_{low(s.value) ^ low(hash(purpose)), high(s.value) ^ high(hash(purpose))}, index_(index) {}

  /// Four independent 32-bit words.
  [[nodiscard]] constexpr std::array<std::uint32_t, 4> block(std::uint64_t i) const {
    return philox({low(i), high(i), low(index_), high(index_)}, key_);
  }
  [[nodiscard]] constexpr std::uint64_t bits(std::uint64_t i) const {
    auto const b = block(i);
    return (std::uint64_t(b[1]) << 32) | b[0];
  }
  /// In [0, 1), 53 bits.
  [[nodiscard]] constexpr double uniform(std::uint64_t i) const { return double(bits(i) >> 11) * 0x1p-53; }
  /// In [0, n). The bias of the multiply-shift is below n / 2^64.
  [[nodiscard]] constexpr std::uint64_t below(std::uint64_t i, std::uint64_t n) const {
    std::uint64_t const b = bits(i);
    std::uint64_t const mid = (low(b) * std::uint64_t(low(n)) >> 32) + std::uint64_t(high(b)) * low(n);
    std::uint64_t const mid2 = std::uint64_t(low(b)) * high(n) + low(mid);
    return std::uint64_t(high(b)) * high(n) + (mid >> 32) + (mid2 >> 32);
  }
  /// Standard normal (Box-Muller); values 2k and 2k+1 share a block.
  [[nodiscard]] double normal(std::uint64_t i) const {
    auto const b = block(i / 2);
    double const u = (double(b[0]) + 1.0) * 0x1p-32;  // in (0, 1]: the logarithm is finite
    double const radius = std::sqrt(-2.0 * std::log(u));
    double const angle = 2.0 * std::numbers::pi * double(b[1]) * 0x1p-32;
    return radius * (i % 2 == 0 ? std::cos(angle) : std::sin(angle));
  }

  static constexpr std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> c,
                                                       std::array<std::uint32_t, 2> k) {
    for (int round = 0; round < 10; ++round) {
      std::uint64_t const a = 0xD2511F53ull * c[0];
      std::uint64_t const b = 0xCD9E8D57ull * c[2];
      c = {high(b) ^ c[1] ^ k[0], low(b), high(a) ^ c[3] ^ k[1], low(a)};
      k = {k[0] + 0x9E3779B9u, k[1] + 0xBB67AE85u};
    }
    return c;
  }

 private:
  static constexpr std::uint32_t low(std::uint64_t v) { return std::uint32_t(v & 0xFFFFFFFFu); }
  static constexpr std::uint32_t high(std::uint64_t v) { return std::uint32_t(v >> 32); }
  static constexpr std::uint64_t hash(std::string_view text) {  // FNV-1a
    std::uint64_t h = 0xcbf29ce484222325ull;
    for (char c : text) h = (h ^ std::uint64_t(static_cast<unsigned char>(c))) * 0x100000001b3ull;
    return h;
  }

  std::array<std::uint32_t, 2> key_;
  std::uint64_t index_;
};

// Known answers of the authors: counter and key all zeros, all ones.
static_assert(random_stream::philox({0, 0, 0, 0}, {0, 0}) ==
              std::array<std::uint32_t, 4>{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u});
static_assert(random_stream::philox({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}) ==
              std::array<std::uint32_t, 4>{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu});

}  // namespace accrete::inline v0
