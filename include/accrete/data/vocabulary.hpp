#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "accrete/core/error.hpp"
#include "accrete/core/view.hpp"
#include "accrete/data/byte_alphabet.hpp"
#include "accrete/data/tokenizer_spec.hpp"

namespace accrete::inline v0::data {

namespace detail {
[[noreturn]] inline void bad_tokenizer(tokenizer_spec const& spec, std::string const& got,
                                       std::string const& expected) {
  throw io_error(spec.where(), got, expected, "the file may be damaged or of another kind");
}
}  // namespace detail

/// The tokens of a tokenizer as bytes. Views go into one buffer, so it stays where it is made.
class vocabulary {
 public:
  /// Throws `io_error` on tokens that contradict themselves.
  explicit vocabulary(tokenizer_spec const& spec) : kinds_(spec.kinds) {
    if (spec.tokens.empty()) detail::bad_tokenizer(spec, "0 tokens", "1 or more");
    if (kinds_.empty()) kinds_.assign(spec.tokens.size(), tokenizer_spec::normal);
    if (kinds_.size() != spec.tokens.size())
      detail::bad_tokenizer(spec, std::to_string(kinds_.size()) + " token kinds",
                            std::to_string(spec.tokens.size()));
    if (spec.tokens.size() > INT32_MAX)
      detail::bad_tokenizer(spec, std::to_string(spec.tokens.size()) + " tokens", "fewer than 2^31");
    read_bytes(spec);
    words_.reserve(pieces_.size());
    for (std::size_t id = 0; id < pieces_.size(); ++id)
      if (kinds_[id] == tokenizer_spec::normal) words_.try_emplace(pieces_[id], std::int32_t(id));
  }
  vocabulary(vocabulary const&) = delete;
  vocabulary& operator=(vocabulary const&) = delete;

  [[nodiscard]] index_t size() const { return index_t(pieces_.size()); }
  /// The bytes of a token; `where` begins the message of the `config_error` for an id outside.
  [[nodiscard]] std::string_view piece(std::int32_t id, char const* where) const {
    check(id, where);
    return pieces_[std::size_t(id)];
  }
  /// True for tokens that are no text: control, unknown and unused ones.
  [[nodiscard]] bool is_control(std::int32_t id, char const* where) const {
    check(id, where);
    auto const kind = kinds_[std::size_t(id)];
    return kind != tokenizer_spec::normal && kind != tokenizer_spec::user_defined;
  }

  /// True for the tokens that words are made of.
  [[nodiscard]] bool is_word(std::int32_t id) const {
    return kinds_[std::size_t(id)] == tokenizer_spec::normal;
  }

  /// The normal token of these bytes, -1 when there is none.
  [[nodiscard]] std::int32_t find_word(std::string_view bytes) const {
    auto const found = words_.find(bytes);
    return found == words_.end() ? -1 : found->second;
  }
  /// The same for an entry in GPT-2's byte alphabet.
  [[nodiscard]] std::int32_t find_entry(std::string_view entry) const {
    auto const bytes = gpt2_bytes.read(entry);
    return bytes ? find_word(*bytes) : -1;
  }
  /// Any token of these bytes, a normal one first.
  [[nodiscard]] std::int32_t find(std::string_view bytes) const {
    auto const word = find_word(bytes);
    if (word >= 0) return word;
    auto const other = std::find(pieces_.begin(), pieces_.end(), bytes);
    return other == pieces_.end() ? -1 : std::int32_t(other - pieces_.begin());
  }

 private:
  void read_bytes(tokenizer_spec const& spec) {
    std::vector<std::size_t> ends;
    for (std::size_t id = 0; id < spec.tokens.size(); ++id) {
      std::string const& token = spec.tokens[id];
      auto const bytes = kinds_[id] == tokenizer_spec::normal ? gpt2_bytes.read(token) : std::optional(token);
      if (!bytes)
        detail::bad_tokenizer(spec, "token " + std::to_string(id) + " with a character that stands for no byte",
                              "GPT-2's byte alphabet");
      bytes_.insert(bytes_.end(), bytes->begin(), bytes->end());
      ends.push_back(bytes_.size());
    }
    // Views only now: the buffer has stopped moving.
    std::size_t first = 0;
    for (std::size_t const end : ends) {
      pieces_.emplace_back(bytes_.data() + first, end - first);
      first = end;
    }
  }
  void check(std::int32_t id, char const* where) const {
    if (id < 0 || id >= size())
      throw config_error(where, "token id " + std::to_string(id), "0 <= id < " + std::to_string(size()));
  }

  std::vector<char> bytes_;  // of all tokens, end to end
  std::vector<std::string_view> pieces_;
  std::vector<std::int32_t> kinds_;
  std::unordered_map<std::string_view, std::int32_t> words_;
};

}  // namespace accrete::inline v0::data
