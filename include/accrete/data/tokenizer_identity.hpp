#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "accrete/data/split_rule.hpp"
#include "accrete/data/tokenizer_spec.hpp"
#include "accrete/data/vocabulary.hpp"

namespace accrete::inline v0::data {

/// 64 bits over everything that decides about tokens. What the parts do counts, not how a file says it: a GGUF
/// and a tokenizer.json of one tokenizer agree. `added` are the added tokens with their texts; `lacks_bytes`
/// says whether the vocabulary has no token for some byte.
[[nodiscard]] inline std::uint64_t tokenizer_identity(tokenizer_spec const& spec, vocabulary const& words,
                                                      std::vector<tokenizer_spec::added_token> const& added,
                                                      bool lacks_bytes) {
  std::uint64_t h = 0xcbf29ce484222325ull;  // FNV-1a
  auto const mix = [&h](std::string_view item) {
    for (char const c : item) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
    h = (h ^ 0x100u) * 0x100000001b3ull;  // ends the item: "ab", "c" is not "a", "bc"
  };
  auto const number = [&mix](auto value) { mix(std::to_string(value)); };
  for (std::int32_t id = 0; id < words.size(); ++id) {
    mix(words.piece(id, "data::tokenizer"));
    number(words.is_word(id));
  }
  for (auto const& step : steps_of(spec)) {
    mix(step.pattern);
    number(int(step.how) * 4 + int(step.invert) * 2 + int(step.prefix_space));
  }
  for (auto const& entry : spec.merges) mix(entry);
  for (auto const& t : added) {
    number(t.id);
    mix(t.content);
    number(int(t.special) * 16 + int(t.single_word) * 8 + int(t.lstrip) * 4 + int(t.rstrip) * 2 +
           int(t.normalized));
  }
  bool const knows_unknown = spec.unknown >= 0;
  for (std::int32_t const v :
       {std::int32_t(takes_whole_words(spec)), spec.add_bos ? spec.bos : -1, spec.add_eos ? spec.eos : -1,
        spec.unknown, std::int32_t(spec.add_bos), std::int32_t(spec.add_eos),
        std::int32_t(spec.fuse_unknown && knows_unknown && lacks_bytes),
        std::int32_t(spec.drop_lacking && !knows_unknown && lacks_bytes), std::int32_t(spec.normalization)})
    number(v);
  return h;
}

}  // namespace accrete::inline v0::data
