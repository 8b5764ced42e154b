#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>

#include "accrete/core/error.hpp"
#include "accrete/io/detail/bytes.hpp"
#include "accrete/io/gguf_weights.hpp"
#include "accrete/io/weight_source.hpp"

namespace accrete::inline v0::io {

/// Opens a model: a GGUF file. Throws io_error in one line.
[[nodiscard]] inline std::unique_ptr<weight_source> open_weights(std::filesystem::path const& path) {
  return std::make_unique<gguf_weights>(path);
}

}  // namespace accrete::inline v0::io
