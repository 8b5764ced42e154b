#pragma once
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "accrete/core/error.hpp"
#include "accrete/data/detail/tokenizer_json.hpp"
#include "accrete/data/tokenizer_spec.hpp"
#include "accrete/io/json.hpp"
#include "accrete/io/message_text.hpp"
#include "accrete/io/placed_json.hpp"

namespace accrete::inline v0::data::detail {

/// Reads the `added_tokens` of a tokenizer.json into a specification that has the model's vocabulary, which
/// `vocab` is in the file. Throws io_error where the two contradict each other.
inline void read_hf_added_tokens(std::vector<io::placed_json> const& tokens, io::json const& vocab,
                                 tokenizer_spec& spec) {
  spec.added.emplace();
  std::size_t const in_model = spec.tokens.size();
  std::set<std::int32_t> ids;
  for (auto const& t : tokens) {
    require_only(t, {"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
    auto const id = token_id(t.at("id"));
    auto const content = t.at("content");
    auto const& text = content.as_string();
    if (text.empty()) throw io_error(t.where, "no content", "the text of a token");
    if (!ids.insert(id).second) throw io_error(t.where, "id " + std::to_string(id) + " twice", "each id once");
    if (std::size_t(id) >= in_model + 2 * tokens.size() + 65536)
      throw io_error(t.where, "id " + std::to_string(id),
                     "one near the " + std::to_string(in_model) + " of the vocabulary");
    if (std::size_t(id) >= spec.tokens.size()) {
      spec.tokens.resize(std::size_t(id) + 1);
      spec.kinds.resize(std::size_t(id) + 1, tokenizer_spec::unused);
    }
    if (auto const* const word = vocab.find(text); word != nullptr && word->as_index(t.where) != id)
      throw io_error(t.where, io::name_text(text) + " of id " + std::to_string(id),
                     std::to_string(word->as_index(t.where)) + ", its id in the vocabulary");
    auto& known = spec.tokens[std::size_t(id)];
    if (std::size_t(id) < in_model && !known.empty() && known != text)
      throw io_error(t.where, io::name_text(text) + " of id " + std::to_string(id),
                     io::name_text(known) + ", which the vocabulary has there");
    known = text;
    auto& kind = spec.kinds[std::size_t(id)];
    tokenizer_spec::added_token made{.id = id,
                                     .special = t.flag("special"),
                                     .single_word = t.flag("single_word"),
                                     .lstrip = t.flag("lstrip"),
                                     .rstrip = t.flag("rstrip"),
                                     .normalized = t.flag("normalized", true)};
    // A word of the vocabulary that is an added token as well stays a word; control tokens never are words.
    if (made.special)
      kind = tokenizer_spec::control;
    else if (kind == tokenizer_spec::normal)
      made.content = text;
    else
      kind = tokenizer_spec::user_defined;
    spec.added->push_back(std::move(made));
  }
}

}  // namespace accrete::inline v0::data::detail
