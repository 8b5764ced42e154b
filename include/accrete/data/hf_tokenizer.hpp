#pragma once
#include <filesystem>

#include "accrete/data/tokenizer_spec.hpp"

namespace accrete::inline v0::data {

/// The byte-level BPE of a Hugging Face directory, or of its tokenizer.json named itself: normalization form,
/// split patterns, added tokens, vocabulary and merges out of tokenizer.json; which tokens begin and end a text
/// out of tokenizer_config.json, else generation_config.json and config.json, where they are there.
/// `truncation` and `padding` concern batches and are passed over. Throws `io_error` that names file and place.
[[nodiscard]] tokenizer_spec tokenizer_spec_from_hf(std::filesystem::path path);

}  // namespace accrete::inline v0::data

#if !defined(ACCRETE_COMPILED)
#include "accrete/data/detail/hf_tokenizer_body.hpp"
#endif
