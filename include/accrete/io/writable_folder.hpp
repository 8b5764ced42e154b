#pragma once
#include <filesystem>
#include <system_error>

#include "accrete/core/error.hpp"
#include "accrete/io/atomic_file.hpp"

namespace accrete::inline v0::io {

/// Makes the folder where it is missing and proves that files can be written in it, before hours are spent on
/// what would go there. Leaves nothing else behind. Throws io_error.
inline void require_writable_folder(std::filesystem::path const& folder) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed)
    throw io_error("folder " + path_text(folder), "'" + failed.message() + "'", "a folder that can be written",
                   "choose another");
  auto const probe = folder / ".probe";
  write_atomically(probe, "written to see whether it can be\n");
  std::filesystem::remove(probe, failed);
}

}  // namespace accrete::inline v0::io
