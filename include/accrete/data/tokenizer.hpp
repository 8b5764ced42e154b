#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "accrete/core/error.hpp"
#include "accrete/core/view.hpp"
#include "accrete/data/byte_level_bpe.hpp"
#include "accrete/data/memory_pool.hpp"
#include "accrete/data/pre_tokenizer.hpp"
#include "accrete/data/tokenizer_identity.hpp"
#include "accrete/data/tokenizer_spec.hpp"
#include "accrete/data/utf8.hpp"
#include "accrete/data/vocabulary.hpp"

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
  explicit tokenizer(tokenizer_spec const& spec) : state_(std::make_shared<state>(spec)) {}

  /// Appends the tokens of a text; nothing is put in front or at the end. User-defined tokens are matched
  /// always, control tokens only with `special::parse`; the leftmost, of those the longest. Throws
  /// `config_error` on invalid UTF-8, naming the byte.
  void encode(std::string_view text, std::vector<std::int32_t>& out, special how = special::as_text) const {
    auto const bad = find_invalid_utf8(text);
    if (bad != std::string_view::npos)
      throw config_error("data::tokenizer::encode", "invalid UTF-8 at byte " + std::to_string(bad),
                         "UTF-8 text", "convert the text first");
    state const& s = *state_;
    s.bpe.require_tokens(text);
    auto const borrowed = s.memories.borrow([&] { return working_memory{s.pre.make_memory(), {}}; });
    working_memory& m = *borrowed;
    s.pre.split(
        text, how == special::parse, m.splitting,
        [&](std::string_view word) { s.bpe.encode(word, m.merging, out); },
        [&](std::int32_t id) { out.push_back(id); });
  }
  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text, special how = special::as_text) const {
    std::vector<std::int32_t> out;
    encode(text, out, how);
    return out;
  }

  /// The bytes of the tokens; part of a text may begin or end inside of a character. Throws `config_error` on
  /// an id outside of the vocabulary.
  [[nodiscard]] std::string decode(std::span<std::int32_t const> ids) const {
    std::string out;
    for (std::int32_t const id : ids) out += state_->words.piece(id, "data::tokenizer::decode");
    return out;
  }
  /// The bytes of one token, valid as long as a copy of the tokenizer lives.
  [[nodiscard]] std::string_view piece(std::int32_t id) const {
    return state_->words.piece(id, "data::tokenizer::piece");
  }
  /// The id of a token by its bytes ("<|im_start|>", "\n"), -1 when there is none.
  [[nodiscard]] std::int32_t find(std::string_view bytes) const { return state_->words.find(bytes); }
  /// True for tokens that are no text: control, unknown and unused ones.
  [[nodiscard]] bool is_control(std::int32_t id) const {
    return state_->words.is_control(id, "data::tokenizer::is_control");
  }

  [[nodiscard]] index_t vocab_size() const { return state_->words.size(); }
  [[nodiscard]] std::int32_t bos() const { return state_->ends.bos; }
  [[nodiscard]] std::int32_t eos() const { return state_->ends.eos; }
  /// Whether the model expects `bos` in front of a text; `data::open` puts it there, `encode` never does.
  [[nodiscard]] bool add_bos() const { return state_->ends.add_bos; }
  /// Whether it expects `eos` behind a text, likewise.
  [[nodiscard]] bool add_eos() const { return state_->ends.add_eos; }
  /// The file it comes from, as messages name it; empty for one made by hand.
  [[nodiscard]] std::string const& source() const { return state_->source; }
  /// The file it was read from; empty for one made by hand.
  [[nodiscard]] std::filesystem::path const& file() const { return state_->file; }
  /// 64 bits over everything that decides about tokens; for cache keys.
  [[nodiscard]] std::uint64_t identity() const { return state_->identity; }
  /// The same in 16 hexadecimal digits, as token shards keep it.
  [[nodiscard]] std::string identity_text() const {
    std::string text;
    for (int shift = 60; shift >= 0; shift -= 4) text += "0123456789abcdef"[(state_->identity >> shift) & 15];
    return text;
  }

 private:
  struct working_memory {
    pre_tokenizer::memory splitting;
    byte_level_bpe::memory merging;
  };

  // The tokens that begin and end a text. Made of no specification that names an id without a token.
  struct text_ends {
    text_ends(tokenizer_spec const& spec, vocabulary const& words)
        : bos(spec.bos), eos(spec.eos), add_bos(spec.add_bos), add_eos(spec.add_eos) {
      for (auto const& [what, id] :
           {std::pair{"bos", bos}, std::pair{"eos", eos}, std::pair{"unknown", spec.unknown}})
        if (id < -1 || id >= words.size())
          detail::bad_tokenizer(spec, std::string(what) + " id " + std::to_string(id),
                                "-1 or an id below " + std::to_string(words.size()));
      if (add_bos && bos < 0)
        detail::bad_tokenizer(spec, "no bos id", "one, since each text shall begin with it");
      if (add_eos && eos < 0)
        detail::bad_tokenizer(spec, "no eos id", "one, since each text shall end with it");
    }
    std::int32_t bos, eos;
    bool add_bos, add_eos;
  };

  struct state {
    explicit state(tokenizer_spec const& spec)
        : file(spec.file), source(spec.source), pre(spec), words(spec), ends(spec, words), bpe(spec, words) {
      auto const added = pre.insert_added(spec, words);
      identity = tokenizer_identity(spec, words, added, bpe.lacks_bytes());
    }

    std::filesystem::path file;
    std::string source;
    pre_tokenizer pre;
    vocabulary words;
    text_ends ends;
    byte_level_bpe bpe;
    std::uint64_t identity = 0;
    memory_pool<working_memory> mutable memories;
  };

  std::shared_ptr<state const> state_;
};

}  // namespace accrete::inline v0::data
