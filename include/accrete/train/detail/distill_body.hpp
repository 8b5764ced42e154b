#pragma once
#include <cctype>
#include <filesystem>
#include <string>
#include <system_error>

#include "accrete/core/config.hpp"
#include "accrete/io/atomic_file.hpp"
#include "accrete/train/distill.hpp"
#include "accrete/train/log_lines.hpp"

namespace accrete::inline v0 {

ACCRETE_INLINE void distilled::write(std::filesystem::path const& folder) const {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  std::string lines;
  for (auto const& r : steps) lines += train::to_json(r).dump() + "\n";
  for (auto const& r : evaluations) lines += train::to_json(r).dump() + "\n";
  std::string name = student;
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  io::write_atomically(folder / (name + "_seed" + std::to_string(seed) + ".jsonl"), lines);
}

}  // namespace accrete::inline v0
