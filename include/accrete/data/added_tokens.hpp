#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "accrete/data/normal_form.hpp"
#include "accrete/data/oniguruma.hpp"
#include "accrete/data/word_splitter.hpp"

namespace accrete::inline v0::data {

/// The added tokens of one kind (looked for in text as it is, or in normalized text) in a trie. Read-only once
/// all are in.
class added_tokens {
 public:
  struct token {
    std::int32_t id;
    bool special, single_word, lstrip, rstrip;
  };

  /// Of two tokens with one text the first counts.
  void insert(std::string_view text, token t) {
    if (text.empty()) return;
    std::int32_t at = 0;
    for (char const c : text) {
      std::int32_t next = child(at, c);
      if (next < 0) {
        next = std::int32_t(nodes_.size());
        nodes_.push_back({c, -1, nodes_[std::size_t(at)].first_child, -1});
        nodes_[std::size_t(at)].first_child = next;
      }
      at = next;
    }
    if (nodes_[std::size_t(at)].token >= 0) return;
    nodes_[std::size_t(at)].token = std::int32_t(tokens_.size());
    tokens_.push_back(t);
    begins_[static_cast<unsigned char>(text[0])] = true;
    if (t.single_word && !word_)
      word_.emplace(
          "["
          R"(\p{Alphabetic}\p{Nd}\p{Pc}\x{200C}\x{200D})" +
          detail::property_members("M") + detail::later_members("L") + detail::later_members("Nd") + "]");
  }
  [[nodiscard]] bool empty() const { return tokens_.empty(); }

  /// Calls `text(std::string_view)` for what lies between the tokens and `found(std::int32_t id)` for each of
  /// them, in order. The leftmost counts, of those the longest. A special token without `with_special` is text,
  /// and nothing else is looked for inside of it; the same holds for a single word that is a part of one.
  template <class Text, class Found>
  void split(std::string_view all, bool with_special, Text&& text, Found&& found) const {
    std::size_t done = 0;
    for (std::size_t i = 0; i < all.size();) {
      if (!begins_[static_cast<unsigned char>(all[i])]) {
        ++i;
        continue;
      }
      auto const [length, number] = longest(all, i);
      if (length == 0) {
        ++i;
        continue;
      }
      token const& t = tokens_[std::size_t(number)];
      std::size_t begin = i, end = i + length;
      i = end;
      if (t.special && !with_special) continue;
      if (t.single_word && (word_before(all, begin) || word_after(all, end))) continue;
      if (t.lstrip) begin = (std::max)(done, space_before(all, begin));
      if (t.rstrip) end = space_after(all, end);
      if (done < begin) text(all.substr(done, begin - done));
      found(t.id);
      done = end;
    }
    if (done < all.size()) text(all.substr(done));
  }

 private:
  struct node {
    char byte;
    std::int32_t first_child, sibling, token;
  };

  [[nodiscard]] std::int32_t child(std::int32_t at, char c) const {
    for (std::int32_t k = nodes_[std::size_t(at)].first_child; k >= 0; k = nodes_[std::size_t(k)].sibling)
      if (nodes_[std::size_t(k)].byte == c) return k;
    return -1;
  }
  [[nodiscard]] std::pair<std::size_t, std::int32_t> longest(std::string_view all, std::size_t from) const {
    std::pair<std::size_t, std::int32_t> best{0, -1};
    std::int32_t at = 0;
    for (std::size_t i = from; i < all.size() && (at = child(at, all[i])) >= 0; ++i)
      if (nodes_[std::size_t(at)].token >= 0) best = {i + 1 - from, nodes_[std::size_t(at)].token};
    return best;
  }

  // Unicode's White_Space.
  static bool is_space(std::uint32_t c) {
    return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
           c == 0x3000;
  }
  static std::size_t character_before(std::string_view all, std::size_t i) {
    do --i;
    while (i > 0 && (static_cast<unsigned char>(all[i]) & 0xC0u) == 0x80u);
    return i;
  }
  static std::size_t space_before(std::string_view all, std::size_t i) {
    while (i > 0) {
      std::size_t const before = character_before(all, i);
      std::size_t next = before;
      if (!is_space(detail::next_code_point(all, next))) break;
      i = before;
    }
    return i;
  }
  static std::size_t space_after(std::string_view all, std::size_t i) {
    for (std::size_t next = i; i < all.size(); i = next)
      if (!is_space(detail::next_code_point(all, next))) break;
    return i;
  }
  [[nodiscard]] bool is_word(std::string_view character) const {
    bool whole = false;
    word_->for_each_piece(character, word_->make_memory(),
                          [&](std::string_view, bool matched) { whole = matched; });
    return whole;
  }
  [[nodiscard]] bool word_before(std::string_view all, std::size_t i) const {
    if (i == 0) return false;
    std::size_t const before = character_before(all, i);
    return is_word(all.substr(before, i - before));
  }
  [[nodiscard]] bool word_after(std::string_view all, std::size_t i) const {
    if (i == all.size()) return false;
    std::size_t next = i;
    (void)detail::next_code_point(all, next);
    return is_word(all.substr(i, next - i));
  }

  std::vector<node> nodes_{{'\0', -1, -1, -1}};
  std::vector<token> tokens_;
  std::array<bool, 256> begins_{};
  std::optional<word_splitter> word_;  // one character of a word
};

}  // namespace accrete::inline v0::data
