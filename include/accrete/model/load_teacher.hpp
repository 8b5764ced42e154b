#pragma once
#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "accrete/core/error.hpp"
#include "accrete/data/gguf_tokenizer.hpp"
#include "accrete/data/hf_tokenizer.hpp"
#include "accrete/io/gguf_weights.hpp"
#include "accrete/io/message_text.hpp"
#include "accrete/io/weights.hpp"
#include "accrete/model/teacher.hpp"

namespace accrete::inline v0 {

/// Opens a GGUF file (with the tokenizer inside it) or a Hugging Face directory (with its tokenizer.json, where
/// there is one) and reads the whole model into the backend's memory. The tokenizer may have fewer tokens than
/// the model has rows, as padded models do, never more. `max_positions` bounds documents and is cut to what the
/// model was made for. Throws io_error.
template <backend B>
teacher<B> load_teacher(std::filesystem::path const& path, B ctx = {}, index_t max_positions = 8192) {
  auto const source = io::open_weights(path);
  std::optional<data::tokenizer> words;
  std::error_code ignored;
  if (auto const* const gguf = dynamic_cast<io::gguf_weights const*>(source.get()))
    words.emplace(data::tokenizer_spec_from_gguf(gguf->file()));
  else if (std::filesystem::exists(path / "tokenizer.json", ignored))
    words.emplace(data::tokenizer_spec_from_hf(path));
  if (words && words->vocab_size() > source->config.vocab_size)
    throw io_error("load_teacher " + io::path_text(path),
                   "a tokenizer of " + std::to_string(words->vocab_size()) + " tokens",
                   "at most the model's " + std::to_string(source->config.vocab_size),
                   "the tokenizer is another model's");
  index_t const made_for = source->config.max_position_embeddings;
  index_t const positions = made_for > 0 ? (std::min)(max_positions, made_for) : max_positions;
  return teacher<B>(std::move(ctx), *source, std::move(words), positions);
}

}  // namespace accrete::inline v0
