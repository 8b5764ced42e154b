#pragma once
#include <filesystem>
#include <memory>
#include <system_error>

#include "accrete/core/error.hpp"
#include "accrete/io/gguf_weights.hpp"
#include "accrete/io/hf_weights.hpp"
#include "accrete/io/message_text.hpp"
#include "accrete/io/weight_source.hpp"

namespace accrete::inline v0::io {

/// Opens a model: a GGUF file, or a directory as Hugging Face writes it. The file's content decides, not its
/// name. Throws io_error in one line that says what is wrong with it.
[[nodiscard]] inline std::unique_ptr<weight_source> open_weights(std::filesystem::path const& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return std::make_unique<hf_weights>(path);
  if (path.extension() == ".safetensors")
    throw io_error("io::open_weights " + path_text(path), "a safetensors file",
                   "the directory that holds it and config.json");
  return std::make_unique<gguf_weights>(path);
}

}  // namespace accrete::inline v0::io
