#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "accrete/core/view.hpp"
#include "accrete/data/tokenizer_spec.hpp"

namespace accrete::inline v0::data {

/// What the text of a control token means in a text: the token, or its characters. Training text is data, so
/// the second is the default.
enum class special { as_text, parse };

/// Byte-level BPE. Cheap to copy; copies share one read-only state, and any number of threads may encode at
/// once (each call borrows a working memory with a word cache of its own).
///
/// `decode(encode(x)) == x` for every valid UTF-8 text that the normalizer leaves alone, unless the file says
/// otherwise: tokens that take white space along, a split that removes its matches, a space in front, or a
/// vocabulary that lacks a byte. Such a byte becomes the unknown token; where the file names none, it is left
/// out (tokenizer.json, as `tokenizers` does) or an error (GGUF).
class tokenizer {
 public:
  /// Throws `io_error` on a specification that contradicts itself.
  explicit tokenizer(tokenizer_spec const& spec);

  /// Appends the tokens of a text; nothing is put in front or at the end. User-defined tokens are matched
  /// always, control tokens only with `special::parse`; the leftmost, of those the longest. Throws
  /// `config_error` on invalid UTF-8, naming the byte.
  void encode(std::string_view text, std::vector<std::int32_t>& out, special how = special::as_text) const;
  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text, special how = special::as_text) const {
    std::vector<std::int32_t> out;
    encode(text, out, how);
    return out;
  }

  /// The bytes of the tokens; part of a text may begin or end inside of a character. Throws `config_error` on
  /// an id outside of the vocabulary.
  [[nodiscard]] std::string decode(std::span<std::int32_t const> ids) const;
  /// The bytes of one token, valid as long as a copy of the tokenizer lives.
  [[nodiscard]] std::string_view piece(std::int32_t id) const;
  /// The id of a token by its bytes ("<|im_start|>", "\n"), -1 when there is none.
  [[nodiscard]] std::int32_t find(std::string_view bytes) const;
  /// True for tokens that are no text: control, unknown and unused ones.
  [[nodiscard]] bool is_control(std::int32_t id) const;

  [[nodiscard]] index_t vocab_size() const;
  [[nodiscard]] std::int32_t bos() const;
  [[nodiscard]] std::int32_t eos() const;
  /// Whether the model expects `bos` in front of a text; `data::open` puts it there, `encode` never does.
  [[nodiscard]] bool add_bos() const;
  /// Whether it expects `eos` behind a text, likewise.
  [[nodiscard]] bool add_eos() const;
  /// The file it comes from, as messages name it; empty for one made by hand.
  [[nodiscard]] std::string const& source() const;
  /// The file it was read from; empty for one made by hand.
  [[nodiscard]] std::filesystem::path const& file() const;
  /// 64 bits over everything that decides about tokens; for cache keys.
  [[nodiscard]] std::uint64_t identity() const;
  /// The same in 16 hexadecimal digits, as token shards keep it.
  [[nodiscard]] std::string identity_text() const;

 private:
  struct state;

  std::shared_ptr<state const> state_;
};

}  // namespace accrete::inline v0::data

#if !defined(ACCRETE_COMPILED)
#include "accrete/data/detail/tokenizer_body.hpp"
#endif
