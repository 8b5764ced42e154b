#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>

#include "accrete/core/config.hpp"
#include "accrete/core/error.hpp"
#include "accrete/data/gguf_tokenizer.hpp"
#include "accrete/data/hf_tokenizer.hpp"
#include "accrete/data/tokenizer.hpp"
#include "accrete/io/gguf_weights.hpp"
#include "accrete/io/message_text.hpp"
#include "accrete/io/weight_source.hpp"
#include "accrete/model/load_teacher.hpp"

namespace accrete::inline v0::model::detail {

ACCRETE_INLINE std::optional<data::tokenizer> tokenizer_of(io::weight_source const& source,
                                                           std::filesystem::path const& path) {
  std::optional<data::tokenizer> words;
  std::error_code ignored;
  if (auto const* const gguf = dynamic_cast<io::gguf_weights const*>(&source))
    words.emplace(data::tokenizer_spec_from_gguf(gguf->file()));
  else if (std::filesystem::exists(path / "tokenizer.json", ignored))
    words.emplace(data::tokenizer_spec_from_hf(path));
  if (words && words->vocab_size() > source.config.vocab_size)
    throw io_error("load_teacher " + io::path_text(path),
                   "a tokenizer of " + std::to_string(words->vocab_size()) + " tokens",
                   "at most the model's " + std::to_string(source.config.vocab_size),
                   "the tokenizer is another model's");
  return words;
}

}  // namespace accrete::inline v0::model::detail
