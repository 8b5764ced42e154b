#pragma once
#include <string>

#include "accrete/data/byte_alphabet.hpp"
#include "accrete/data/tokenizer.hpp"

namespace fuzz {

/// The tokens of what the seeds of `shards` hold.
inline accrete::data::tokenizer_spec small_spec() {
  accrete::data::tokenizer_spec spec;
  for (char const c : std::string("abcdefgh 1\n"))
    spec.tokens.push_back(accrete::data::gpt2_bytes.write({&c, 1}));
  spec.tokens.insert(spec.tokens.end(), {"ab", "abc"});
  spec.merges = {"a b", "ab c"};
  return spec;
}
inline accrete::data::tokenizer small_tokenizer() {
  return accrete::data::tokenizer(small_spec());
}

}  // namespace fuzz
