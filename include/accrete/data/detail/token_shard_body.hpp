#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "accrete/core/config.hpp"
#include "accrete/core/error.hpp"
#include "accrete/core/view.hpp"
#include "accrete/data/token_shard.hpp"
#include "accrete/io/content_hash.hpp"
#include "accrete/io/json.hpp"
#include "accrete/io/message_text.hpp"
#include "accrete/io/safetensors.hpp"
#include "accrete/io/safetensors_dtype.hpp"
#include "accrete/io/safetensors_writer.hpp"

namespace accrete::inline v0::data {

ACCRETE_INLINE token_shard::token_shard(std::filesystem::path path) : file_(std::move(path)) {
  if (text("format") != format)
    throw io_error(where(), "format " + io::name_text(text("format")), std::string("'") + format + "'",
                   "token shards are made by examples/prepare");
  facts_.tokenizer = text("tokenizer");
  facts_.cut = text("cut");
  facts_.content = text("content");
  facts_.max_length = number("length");
  facts_.vocabulary = number("vocabulary");
  facts_.more.insert(file_.metadata().begin(), file_.metadata().end());
  auto const& tokens = file_.tensor("tokens");
  bool const narrow = tokens.dtype == io::safetensors_dtype::u16;
  if ((!narrow && tokens.dtype != io::safetensors_dtype::i32) || tokens.shape.size() != 1)
    throw io_error(where(), "tokens " + io::name_of(tokens.dtype) + io::shape_text(tokens.shape),
                   "U16[T] or I32[T]");
  width_ = narrow ? 2 : 4;
  tokens_ = tokens.bytes.data();
  num_tokens_ = tokens.shape[0];
  num_documents_ = starts("offsets", offsets_);
  num_texts_ = starts("texts", texts_);
  // The ends now, what lies between when it is read.
  if (offset(0) != 0 || offset(num_documents_) != num_tokens_)
    throw io_error(
        where(), "offsets from " + std::to_string(offset(0)) + " to " + std::to_string(offset(num_documents_)),
        "0 to " + std::to_string(num_tokens_), "the file may be damaged");
  if (text_start(0) != 0 || text_start(num_texts_) != num_documents_)
    throw io_error(
        where(),
        "texts from " + std::to_string(text_start(0)) + " to " + std::to_string(text_start(num_texts_)),
        "0 to " + std::to_string(num_documents_), "the file may be damaged");
}

ACCRETE_INLINE index_t token_shard::number(char const* key) const {
  return io::json::parse(text(key), where() + ": " + key).as_index(where() + ": " + key);
}

ACCRETE_INLINE void write_token_shard(std::filesystem::path const& path, shard_facts facts,
                                      std::span<std::int32_t const> tokens,  // [T]
                                      std::span<index_t const> offsets,      // [D + 1]
                                      std::span<index_t const> texts) {      // [N + 1]
  static_assert(sizeof(index_t) == sizeof(std::int64_t));
  io::content_hash hash;
  hash.update(std::as_bytes(tokens)).update(std::as_bytes(offsets)).update(std::as_bytes(texts));
  bool const narrow = facts.vocabulary <= index_t((std::numeric_limits<std::uint16_t>::max)()) + 1;
  io::safetensors_writer out(path);
  for (auto const& [key, value] : facts.more) out.metadata(key, value);
  out.metadata("format", token_shard::format)
      .metadata("tokenizer", facts.tokenizer)
      .metadata("vocabulary", std::to_string(facts.vocabulary))
      .metadata("cut", facts.cut)
      .metadata("length", std::to_string(facts.max_length))
      .metadata("content", hash.hex());
  out.declare("offsets", io::safetensors_dtype::i64, {index_t(offsets.size())})
      .declare("texts", io::safetensors_dtype::i64, {index_t(texts.size())})
      .declare("tokens", narrow ? io::safetensors_dtype::u16 : io::safetensors_dtype::i32,
               {index_t(tokens.size())});
  out.append("offsets", std::as_bytes(offsets));
  out.append("texts", std::as_bytes(texts));
  std::vector<std::uint16_t> piece;
  for (std::size_t at = 0; narrow && at < tokens.size(); at += piece.size()) {
    auto const part = tokens.subspan(at, (std::min)(tokens.size() - at, std::size_t(1) << 16));
    piece.clear();
    for (std::int32_t const id : part) piece.push_back(std::uint16_t(id));
    out.append("tokens", std::as_bytes(std::span(std::as_const(piece))));
  }
  if (!narrow && !tokens.empty()) out.append("tokens", std::as_bytes(tokens));
  out.commit();
}

}  // namespace accrete::inline v0::data
