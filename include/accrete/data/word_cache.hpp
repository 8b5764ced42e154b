#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace accrete::inline v0::data {

/// Remembers the tokens of words. Bounded: it holds `max_words` words of up to `max_bytes` bytes and starts
/// anew when it is full, which costs less than keeping an order of use. For one thread.
class word_cache {
 public:
  static constexpr std::size_t max_words = 1u << 16;
  static constexpr std::size_t max_bytes = 48;

  word_cache() : slots_(2 * max_words) {}

  [[nodiscard]] std::optional<std::span<std::int32_t const>> find(std::string_view word) const {
    if (word.size() > max_bytes) return std::nullopt;
    std::uint64_t const h = hash(word);
    for (std::size_t i = std::size_t(h) & mask; slots_[i].used; i = (i + 1) & mask)
      if (slots_[i].tag == tag(h) && text_of(slots_[i]) == word)
        return std::span(ids_).subspan(slots_[i].first_id, slots_[i].num_ids);
    return std::nullopt;
  }

  /// Only for words that `find` did not find.
  void insert(std::string_view word, std::span<std::int32_t const> ids) {
    if (word.size() > max_bytes || ids.size() > max_bytes) return;
    if (num_words_ == max_words) clear();
    std::uint64_t const h = hash(word);
    std::size_t i = std::size_t(h) & mask;
    while (slots_[i].used) i = (i + 1) & mask;
    slots_[i] = {tag(h),
                 std::uint32_t(text_.size()),
                 std::uint32_t(ids_.size()),
                 std::uint8_t(word.size()),
                 std::uint8_t(ids.size()),
                 true};
    text_.insert(text_.end(), word.begin(), word.end());
    ids_.insert(ids_.end(), ids.begin(), ids.end());
    ++num_words_;
  }

  [[nodiscard]] std::size_t size() const { return num_words_; }
  void clear() {
    slots_.assign(slots_.size(), slot{});
    text_.clear();
    ids_.clear();
    num_words_ = 0;
  }

 private:
  struct slot {
    std::uint32_t tag = 0, first_byte = 0, first_id = 0;
    std::uint8_t num_bytes = 0, num_ids = 0;
    bool used = false;
  };
  static constexpr std::size_t mask = 2 * max_words - 1;

  [[nodiscard]] std::string_view text_of(slot const& s) const {
    return {text_.data() + s.first_byte, s.num_bytes};
  }
  static std::uint32_t tag(std::uint64_t h) { return std::uint32_t(h >> 32); }
  static std::uint64_t hash(std::string_view word) {  // eight bytes a round
    std::uint64_t h = word.size() * 0x9e3779b97f4a7c15ull;
    for (std::size_t i = 0; i < word.size(); i += 8) {
      std::uint64_t part = 0;
      std::memcpy(&part, word.data() + i, word.size() - i < 8 ? word.size() - i : 8);
      h = (h ^ part) * 0xff51afd7ed558ccdull;
      h ^= h >> 32;
    }
    return h;
  }

  std::vector<slot> slots_;
  std::vector<char> text_;
  std::vector<std::int32_t> ids_;
  std::size_t num_words_ = 0;
};

}  // namespace accrete::inline v0::data
