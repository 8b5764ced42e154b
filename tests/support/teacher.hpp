#pragma once
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>

namespace test {

/// The folder that examples/fetch.sh fills: $ACCRETE_CACHE, else ~/.cache/accrete.
inline std::filesystem::path cache_folder() {
  char const* chosen = std::getenv("ACCRETE_CACHE");
  if (chosen != nullptr && *chosen != '\0') return chosen;
  char const* home = std::getenv("HOME");
  return std::filesystem::path(home == nullptr ? "." : home) / ".cache" / "accrete";
}

/// The real teacher. A test that needs it and does not find it fails with this line; it is never skipped, since
/// a skipped test looks like a passed one.
inline std::filesystem::path teacher_file() {
  auto file = cache_folder() / "SmolLM2-135M-Instruct.Q4_1.gguf";
  if (!std::filesystem::exists(file))
    throw std::runtime_error("test::teacher_file: got no file at " + file.string() +
                             ", expected the teacher (run examples/fetch.sh teacher, or set ACCRETE_CACHE)");
  return file;
}

}  // namespace test
