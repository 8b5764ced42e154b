#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "accrete/io/mapped_file.hpp"

namespace accrete::inline v0::io {

/// A 128-bit fingerprint of bytes, for cache keys: tells files apart that differ by accident, not by malice.
/// The result depends on the bytes alone, not on how they were cut into calls.
class content_hash {
 public:
  content_hash& update(std::span<std::byte const> bytes) {
    if (bytes.empty()) return *this;  // which may begin at null
    length_ += bytes.size();
    if (held_ != 0) {
      std::size_t const n = (std::min)(buffer_.size() - held_, bytes.size());
      std::memcpy(buffer_.data() + held_, bytes.data(), n);
      held_ += n;
      bytes = bytes.subspan(n);
      if (held_ < buffer_.size()) return *this;
      absorb(buffer_.data());
      held_ = 0;
    }
    std::size_t at = 0;
    for (; at + buffer_.size() <= bytes.size(); at += buffer_.size()) absorb(bytes.data() + at);
    held_ = bytes.size() - at;
    if (held_ != 0) std::memcpy(buffer_.data(), bytes.data() + at, held_);
    return *this;
  }
  content_hash& update(std::string_view text) {
    return update(std::as_bytes(std::span(text.data(), text.size())));
  }
  content_hash& update(std::uint64_t number) { return update(std::as_bytes(std::span(&number, 1))); }

  /// 32 hexadecimal digits. Bytes may still be added afterwards.
  [[nodiscard]] std::string hex() const {
    content_hash last = *this;
    if (last.held_ != 0) {
      std::fill(last.buffer_.begin() + std::ptrdiff_t(last.held_), last.buffer_.end(), std::byte{0});
      last.absorb(last.buffer_.data());
    }
    std::uint64_t const a = finish(last.a_ + std::rotl(last.b_, 23) + length_);
    std::uint64_t const b = finish(last.b_ ^ std::rotl(a, 31) ^ length_);
    std::string text;
    for (std::uint64_t word : {a, b})
      for (int shift = 60; shift >= 0; shift -= 4) text += "0123456789abcdef"[(word >> shift) & 15];
    return text;
  }

 private:
  // Each step is a bijection of a lane for a given word and of the word for a given lane (odd factors,
  // rotations), so two inputs that differ in one word cannot meet again inside that lane.
  void absorb(std::byte const* at) {
    std::uint64_t words[2];
    std::memcpy(words, at, sizeof words);
    a_ = std::rotl((a_ ^ words[0] * 0x9E3779B97F4A7C15ull) * 0xD6E8FEB86659FD93ull, 29) + words[1];
    b_ = std::rotl((b_ + words[1] * 0xC2B2AE3D27D4EB4Full) * 0xA0761D6478BD642Full, 31) ^ words[0];
  }
  static std::uint64_t finish(std::uint64_t v) {
    v = (v ^ (v >> 32)) * 0xD6E8FEB86659FD93ull;
    v = (v ^ (v >> 29)) * 0x9E3779B97F4A7C15ull;
    return v ^ (v >> 32);
  }

  std::array<std::byte, 16> buffer_{};
  std::size_t held_ = 0;
  std::uint64_t a_ = 0x243F6A8885A308D3ull;  // digits of pi
  std::uint64_t b_ = 0x13198A2E03707344ull;
  std::uint64_t length_ = 0;
};

/// Adds a file to a fingerprint: all of it up to 256 MiB; of a larger one its first 16 MiB, its last 64 KiB and
/// the first 64 KiB of every MiB, so that opening an 8-billion-parameter model does not read all of it.
/// Retrained or requantized weights differ everywhere and are told apart; a larger file with a few bytes edited
/// by hand may not be.
inline void add_file(content_hash& hash, mapped_file const& file) {
  constexpr std::size_t mib = std::size_t(1) << 20;
  auto const bytes = file.bytes();
  hash.update(std::uint64_t(bytes.size()));
  if (bytes.size() <= 256 * mib) {
    hash.update(bytes);
    return;
  }
  hash.update(bytes.first(16 * mib));
  for (std::size_t at = 16 * mib; at < bytes.size(); at += mib)
    hash.update(bytes.subspan(at, (std::min)(mib / 16, bytes.size() - at)));
  hash.update(bytes.last(mib / 16));
}

}  // namespace accrete::inline v0::io
