#pragma once
#include <filesystem>

#include "accrete/data/tokenizer.hpp"

namespace accrete::inline v0::data {

/// The tokenizer of a GGUF file, a Hugging Face directory or a tokenizer.json, without the model. Throws
/// `io_error` that names the file.
[[nodiscard]] tokenizer load_tokenizer(std::filesystem::path const& path);

}  // namespace accrete::inline v0::data

#if !defined(ACCRETE_COMPILED)
#include "accrete/data/detail/load_tokenizer_body.hpp"
#endif
