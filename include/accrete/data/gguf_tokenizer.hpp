#pragma once
#include "accrete/data/tokenizer_spec.hpp"

namespace accrete::inline v0::io {
class gguf_file;
}

namespace accrete::inline v0::data {

/// The byte-level BPE inside of a GGUF file. Throws `io_error` when it holds another kind of tokenizer.
tokenizer_spec tokenizer_spec_from_gguf(io::gguf_file const& file);

}  // namespace accrete::inline v0::data

#if !defined(ACCRETE_COMPILED)
#include "accrete/data/detail/gguf_tokenizer_body.hpp"
#endif
