#pragma once
#include <filesystem>
#include <system_error>

#include "accrete/core/config.hpp"
#include "accrete/data/gguf_tokenizer.hpp"
#include "accrete/data/hf_tokenizer.hpp"
#include "accrete/data/load_tokenizer.hpp"
#include "accrete/data/tokenizer.hpp"
#include "accrete/io/gguf.hpp"

namespace accrete::inline v0::data {

ACCRETE_INLINE tokenizer load_tokenizer(std::filesystem::path const& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored) || path.extension() == ".json")
    return tokenizer(tokenizer_spec_from_hf(path));
  return tokenizer(tokenizer_spec_from_gguf(io::gguf_file(path)));
}

}  // namespace accrete::inline v0::data
