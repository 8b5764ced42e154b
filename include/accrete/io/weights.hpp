#pragma once
#include <filesystem>
#include <memory>

#include "accrete/io/weight_source.hpp"

namespace accrete::inline v0::io {

/// Opens a model: a GGUF file, or a directory as Hugging Face writes it. The file's content decides, not its
/// name. Throws io_error in one line that says what is wrong with it.
[[nodiscard]] std::unique_ptr<weight_source> open_weights(std::filesystem::path const& path);

}  // namespace accrete::inline v0::io

#if !defined(ACCRETE_COMPILED)
#include "accrete/io/detail/weights_body.hpp"
#endif
