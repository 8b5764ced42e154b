#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "accrete/core/error.hpp"
#include "accrete/core/view.hpp"
#include "accrete/data/cutting.hpp"
#include "accrete/data/token_span.hpp"
#include "accrete/io/bytes.hpp"
#include "accrete/io/message_text.hpp"
#include "accrete/io/safetensors.hpp"

namespace accrete::inline v0::data {

/// What the metadata of a token shard says, all of it decimal numbers or plain words.
struct shard_facts {
  std::string tokenizer;                                   ///< `tokenizer::identity`, 16 hexadecimal digits
  index_t vocabulary = 0;                                  ///< every id is below
  std::string cut = "windows";                             ///< "first" or "windows"
  index_t max_length = 0;                                  ///< most tokens of a document
  std::string content{};                                   ///< a hash over tokens, offsets and texts
  std::map<std::string, std::string, std::less<>> more{};  ///< whatever else its writer noted
};

/// A file of tokenized documents, mapped: `tokens` U16 or I32 [T], `offsets` I64 [D + 1] from document to
/// token, `texts` I64 [N + 1] from text to document, so that windows of one text stay together. Opening it
/// reads the header and a handful of numbers, however large it is. What is in it is checked as it is read.
class token_shard {
 public:
  static constexpr char const* format = "accrete tokens 1";

  explicit token_shard(std::filesystem::path path);

  [[nodiscard]] shard_facts const& facts() const { return facts_; }
  [[nodiscard]] std::filesystem::path const& path() const { return file_.path(); }
  [[nodiscard]] std::string where() const { return "data::token_shard " + io::path_text(file_.path()); }
  [[nodiscard]] index_t num_tokens() const { return num_tokens_; }
  [[nodiscard]] index_t num_documents() const { return num_documents_; }
  [[nodiscard]] index_t num_texts() const { return num_texts_; }  ///< texts that have a document

  /// Where document d begins, d = num_documents() included. Throws `io_error` unless it lies in the file.
  [[nodiscard]] index_t offset(index_t d) const { return start_at(offsets_, d, num_tokens_, "offset"); }
  /// The first document of text t.
  [[nodiscard]] index_t text_start(index_t t) const { return start_at(texts_, t, num_documents_, "text"); }
  [[nodiscard]] index_t length(index_t d) const {
    index_t const n = offset(d + 1) - offset(d);
    if (n < 2 || n > facts_.max_length)
      throw io_error(where(), "document " + std::to_string(d) + " of " + std::to_string(n) + " tokens",
                     "2 to " + std::to_string(facts_.max_length), "the file may be damaged");
    return n;
  }
  /// Document d, each id checked to be below the vocabulary.
  [[nodiscard]] token_span document(index_t d) const {
    index_t const n = length(d);
    token_span const tokens(tokens_ + offset(d) * width_, n, width_);
    if (auto const bad = tokens.find_outside(facts_.vocabulary); bad < n)
      throw io_error(where(), "token id " + std::to_string(tokens[bad]) + " in document " + std::to_string(d),
                     "0 <= id < " + std::to_string(facts_.vocabulary), "the file may be damaged");
    return tokens;
  }

 private:
  [[nodiscard]] std::string text(char const* key) const {
    auto const at = file_.metadata().find(key);
    if (at == file_.metadata().end())
      throw io_error(where(), std::string("no '") + key + "' in its metadata", "a token shard",
                     "token shards are made by examples/prepare");
    return at->second;
  }
  [[nodiscard]] index_t number(char const* key) const;
  [[nodiscard]] index_t starts(char const* name, std::byte const*& first) const {
    auto const& t = file_.tensor(name);
    if (t.dtype != io::safetensors_dtype::i64 || t.shape.size() != 1 || t.shape[0] < 1)
      throw io_error(where(), std::string(name) + " " + io::name_of(t.dtype) + io::shape_text(t.shape),
                     "I64[n + 1]");
    first = t.bytes.data();
    return t.shape[0] - 1;
  }
  [[nodiscard]] index_t start_at(std::byte const* starts, index_t i, index_t most, char const* what) const {
    auto const at = io::load<std::int64_t>(starts + 8 * i);
    if (at < 0 || at > most)
      throw io_error(where(), std::string(what) + " " + std::to_string(i) + " at " + std::to_string(at),
                     "0 to " + std::to_string(most), "the file may be damaged");
    return at;
  }

  io::safetensors_file file_;
  shard_facts facts_;
  std::byte const* tokens_ = nullptr;
  std::byte const* offsets_ = nullptr;
  std::byte const* texts_ = nullptr;
  index_t num_tokens_ = 0, num_documents_ = 0, num_texts_ = 0, width_ = 4;
};

/// Writes a token shard, whole or not at all. Ids take two bytes where the vocabulary allows it, else four, as
/// numbers with a sign: those are what every reader knows, and what a batch holds.
void write_token_shard(std::filesystem::path const& path, shard_facts facts,
                       std::span<std::int32_t const> tokens,  // [T]
                       std::span<index_t const> offsets,      // [D + 1]
                       std::span<index_t const> texts);       // [N + 1]

}  // namespace accrete::inline v0::data

#if !defined(ACCRETE_COMPILED)
#include "accrete/data/detail/token_shard_body.hpp"
#endif
