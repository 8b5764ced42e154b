#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "accrete/core/config.hpp"
#include "accrete/core/error.hpp"
#include "accrete/core/view.hpp"
#include "accrete/data/byte_level_bpe.hpp"
#include "accrete/data/memory_pool.hpp"
#include "accrete/data/pre_tokenizer.hpp"
#include "accrete/data/tokenizer.hpp"
#include "accrete/data/tokenizer_identity.hpp"
#include "accrete/data/tokenizer_spec.hpp"
#include "accrete/data/utf8.hpp"
#include "accrete/data/vocabulary.hpp"

namespace accrete::inline v0::data {

namespace detail {

struct encoding_memory {
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
        bad_tokenizer(spec, std::string(what) + " id " + std::to_string(id),
                      "-1 or an id below " + std::to_string(words.size()));
    if (add_bos && bos < 0) bad_tokenizer(spec, "no bos id", "one, since each text shall begin with it");
    if (add_eos && eos < 0) bad_tokenizer(spec, "no eos id", "one, since each text shall end with it");
  }
  std::int32_t bos, eos;
  bool add_bos, add_eos;
};

}  // namespace detail

struct tokenizer::state {
  explicit state(tokenizer_spec const& spec)
      : file(spec.file), source(spec.source), pre(spec), words(spec), ends(spec, words), bpe(spec, words) {
    auto const added = pre.insert_added(spec, words);
    identity = tokenizer_identity(spec, words, added, bpe.lacks_bytes());
  }

  std::filesystem::path file;
  std::string source;
  pre_tokenizer pre;
  vocabulary words;
  detail::text_ends ends;
  byte_level_bpe bpe;
  std::uint64_t identity = 0;
  memory_pool<detail::encoding_memory> mutable memories;
};

ACCRETE_INLINE tokenizer::tokenizer(tokenizer_spec const& spec) : state_(std::make_shared<state>(spec)) {}

ACCRETE_INLINE void tokenizer::encode(std::string_view text, std::vector<std::int32_t>& out,
                                      special how) const {
  auto const bad = find_invalid_utf8(text);
  if (bad != std::string_view::npos)
    throw config_error("data::tokenizer::encode", "invalid UTF-8 at byte " + std::to_string(bad), "UTF-8 text",
                       "convert the text first");
  state const& s = *state_;
  s.bpe.require_tokens(text);
  auto const borrowed = s.memories.borrow([&] { return detail::encoding_memory{s.pre.make_memory(), {}}; });
  detail::encoding_memory& m = *borrowed;
  s.pre.split(
      text, how == special::parse, m.splitting,
      [&](std::string_view word) { s.bpe.encode(word, m.merging, out); },
      [&](std::int32_t id) { out.push_back(id); });
}

ACCRETE_INLINE std::string tokenizer::decode(std::span<std::int32_t const> ids) const {
  std::string out;
  for (std::int32_t const id : ids) out += state_->words.piece(id, "data::tokenizer::decode");
  return out;
}

ACCRETE_INLINE std::string_view tokenizer::piece(std::int32_t id) const {
  return state_->words.piece(id, "data::tokenizer::piece");
}

ACCRETE_INLINE std::int32_t tokenizer::find(std::string_view bytes) const {
  return state_->words.find(bytes);
}

ACCRETE_INLINE bool tokenizer::is_control(std::int32_t id) const {
  return state_->words.is_control(id, "data::tokenizer::is_control");
}

ACCRETE_INLINE index_t tokenizer::vocab_size() const {
  return state_->words.size();
}

ACCRETE_INLINE std::int32_t tokenizer::bos() const {
  return state_->ends.bos;
}

ACCRETE_INLINE std::int32_t tokenizer::eos() const {
  return state_->ends.eos;
}

ACCRETE_INLINE bool tokenizer::add_bos() const {
  return state_->ends.add_bos;
}

ACCRETE_INLINE bool tokenizer::add_eos() const {
  return state_->ends.add_eos;
}

ACCRETE_INLINE std::string const& tokenizer::source() const {
  return state_->source;
}

ACCRETE_INLINE std::filesystem::path const& tokenizer::file() const {
  return state_->file;
}

ACCRETE_INLINE std::uint64_t tokenizer::identity() const {
  return state_->identity;
}

ACCRETE_INLINE std::string tokenizer::identity_text() const {
  std::string text;
  for (int shift = 60; shift >= 0; shift -= 4) text += "0123456789abcdef"[(state_->identity >> shift) & 15];
  return text;
}

}  // namespace accrete::inline v0::data
