#pragma once
#include <filesystem>
#include <memory>
#include <system_error>

#include "accrete/core/config.hpp"
#include "accrete/core/error.hpp"
#include "accrete/io/gguf_weights.hpp"
#include "accrete/io/hf_weights.hpp"
#include "accrete/io/message_text.hpp"
#include "accrete/io/weight_source.hpp"
#include "accrete/io/weights.hpp"

namespace accrete::inline v0::io {

ACCRETE_INLINE std::unique_ptr<weight_source> open_weights(std::filesystem::path const& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return std::make_unique<hf_weights>(path);
  if (path.extension() == ".safetensors")
    throw io_error("io::open_weights " + path_text(path), "a safetensors file",
                   "the directory that holds it and config.json");
  return std::make_unique<gguf_weights>(path);
}

}  // namespace accrete::inline v0::io
