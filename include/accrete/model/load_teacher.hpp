#pragma once
#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "accrete/core/error.hpp"
#include "accrete/data/gguf_tokenizer.hpp"
#include "accrete/io/weights.hpp"
#include "accrete/model/teacher.hpp"

namespace accrete::inline v0 {

/// Opens a GGUF file (with the tokenizer inside it) or a Hugging Face directory and reads the whole model into
/// the backend's memory. `max_positions` bounds documents and is cut to what the model was made for. Throws
/// io_error.
template <backend B>
teacher<B> load_teacher(std::filesystem::path const& path, B ctx = {}, index_t max_positions = 8192) {
  auto const source = io::open_weights(path);
  std::optional<data::tokenizer> words;
  if (!std::filesystem::is_directory(path)) {
    words.emplace(data::tokenizer_spec_from_gguf(io::gguf_file(path)));
    if (words->vocab_size() > source->config.vocab_size)
      throw io_error("load_teacher '" + path.string() + "'",
                     "a tokenizer of " + std::to_string(words->vocab_size()) + " tokens",
                     "at most the model's " + std::to_string(source->config.vocab_size));
  }
  index_t const made_for = source->config.max_position_embeddings;
  index_t const positions = made_for > 0 ? (std::min)(max_positions, made_for) : max_positions;
  return teacher<B>(std::move(ctx), *source, std::move(words), positions);
}

}  // namespace accrete::inline v0
