#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "accrete/core/error.hpp"
#include "accrete/data/byte_alphabet.hpp"
#include "accrete/data/detail/tokenizer_json.hpp"
#include "accrete/data/tokenizer_spec.hpp"
#include "accrete/io/message_text.hpp"
#include "accrete/io/placed_json.hpp"

namespace accrete::inline v0::data::detail {

/// Tokens and kinds out of the vocabulary of tokenizer.json, an object from tokens to ids.
inline void read_hf_vocabulary(io::placed_json const& vocab, tokenizer_spec& spec) {
  if (!vocab.value.is_object() || vocab.value.items().empty())
    throw io_error(vocab.where, vocab.value.describe(), "an object of tokens and ids");
  auto const& entries = vocab.value.items();
  std::size_t size = 0;
  for (auto const& item : entries)
    size = (std::max)(size, std::size_t(token_id({item, vocab.where + "." + io::name_text(item.key())})) + 1);
  // Ids may have holes, but no more of them than tokens: the file's size bounds what is allocated.
  if (size > 2 * entries.size() + 65536)
    throw io_error(vocab.where,
                   "an id of " + std::to_string(size - 1) + " in " + std::to_string(entries.size()) + " tokens",
                   "ids without large holes");
  spec.tokens.resize(size);
  spec.kinds.assign(size, tokenizer_spec::unused);
  std::vector<bool> taken(size);
  for (auto const& item : entries) {
    auto const id = std::size_t(item.as_index(vocab.where));
    if (taken[id])
      throw io_error(vocab.where, "id " + std::to_string(id) + " twice, for " + io::name_text(item.key()),
                     "each id once");
    taken[id] = true;
    spec.tokens[id] = item.key();
    // What stands for no bytes can be no word either; it keeps its id.
    if (gpt2_bytes.read(item.key())) spec.kinds[id] = tokenizer_spec::normal;
  }
}

/// Merges, each a string or a pair.
inline void read_hf_merges(io::placed_json const& all, tokenizer_spec& spec) {
  if (!all.value.is_array()) throw io_error(all.where, all.value.describe(), "an array of merges");
  spec.merges.reserve(all.value.items().size());
  for (auto const& item : all.value.items()) {
    if (item.is_string()) {
      auto const& text = item.as_string(all.where);
      if (!text.starts_with("#version")) spec.merges.push_back(text);
      continue;
    }
    if (!item.is_array() || item.items().size() != 2)
      throw io_error(all.where + "[" + std::to_string(spec.merges.size()) + "]", item.describe(),
                     "\"left right\" or [\"left\", \"right\"]");
    spec.add_merge(item.items()[0].as_string(all.where), item.items()[1].as_string(all.where));
  }
}

/// Reads the `model` of a tokenizer.json: vocabulary, merges, and what becomes of bytes without a token. Throws
/// io_error on any but a byte-level BPE.
inline void read_hf_model(io::placed_json const& m, tokenizer_spec& spec) {
  if (!m.value.is_object() || (kind_of(m) != "BPE" && !m.at("type").is_null())) refuse(m, "'BPE'");
  require_only(m, {"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
                   "fuse_unk", "byte_fallback", "ignore_merges", "vocab", "merges"});
  for (auto const* const affix : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (auto const v = m.at(affix); !v.is_null() && !v.as_string().empty())
      throw io_error(v.where, v.value.describe(), "null or \"\"", "words are bytes here, without marks");
  if (auto const v = m.at("dropout"); !v.is_null() && v.as_double() != 0)
    throw io_error(v.where, v.value.describe(), "null", "one text shall have one list of tokens");
  auto const vocab = m.at("vocab");
  read_hf_vocabulary(vocab, spec);
  read_hf_merges(m.at("merges"), spec);
  if (auto const unk = m.at("unk_token"); !unk.is_null()) {
    auto const* const id = vocab.value.find(unk.as_string());
    if (id == nullptr) throw io_error(unk.where, unk.value.describe(), "a token of the vocabulary");
    spec.unknown = token_id({*id, unk.where});
  } else {
    spec.drop_lacking = true;
  }
  spec.fuse_unknown = m.flag("fuse_unk");
  spec.ignore_merges = m.flag("ignore_merges");
  if (m.flag("byte_fallback"))
    for (unsigned b = 0; b < 256; ++b) {
      char const byte = char(b);
      if (vocab.value.find(gpt2_bytes.write({&byte, 1})) == nullptr)
        throw io_error(m.at("byte_fallback").where, "true, and no token for byte " + std::to_string(b),
                       "a token for every byte, so that none has to fall back");
    }
}

}  // namespace accrete::inline v0::data::detail
