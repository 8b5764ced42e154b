#pragma once
#include <unistd.h>
#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

#include "accrete/core/error.hpp"
#include "accrete/io/atomic_file.hpp"
#include "accrete/io/message_text.hpp"

namespace accrete::inline v0::io {

/// Whether a name is one of atomic_file's: `anything.tmp.<process>.<n>`.
[[nodiscard]] inline bool is_temporary_name(std::string_view name) {
  auto const digits = [&name] {  // takes them and the point before them off the end
    std::size_t const first = name.find_last_not_of("0123456789") + 1;
    if (first == 0 || first == name.size() || name[first - 1] != '.') return false;
    name = name.substr(0, first - 1);
    return true;
  };
  return digits() && digits() && name.size() > 4 && name.ends_with(".tmp");
}

/// Removes what killed writers left half-written directly in `folder`, and says how many files that were. Only
/// for whoever holds the folder's lock: another's file may be half-written because it is being written.
inline std::size_t remove_leftovers(std::filesystem::path const& folder) {
  std::size_t removed = 0;
  std::error_code failed;
  for (auto at = std::filesystem::directory_iterator(folder, failed); !failed && at != end(at);
       at.increment(failed))
    if (std::error_code ignored; is_temporary_name(at->path().filename().string()) &&
                                 at->is_regular_file(ignored) && std::filesystem::remove(at->path(), ignored))
      ++removed;
  return removed;
}

/// Gives the file `from` a second name, which appears at once in the place of what had it. False where the file
/// system knows no second names; throws io_error where it does and fails.
inline bool link_atomically(std::filesystem::path const& from, std::filesystem::path const& to) {
  auto const temporary = detail::temporary_beside(to);
  std::error_code failed;
  std::filesystem::create_hard_link(from, temporary, failed);
  if (failed) return false;
  std::filesystem::rename(temporary, to, failed);
  ::unlink(temporary.c_str());  // it stays where both names were one file's already
  int const code = failed ? failed.value() : detail::sync_folder(to.parent_path());
  if (code != 0)
    throw io_error("io::link_atomically " + path_text(to), detail::system_text(code, to),
                   "it to be a name of " + path_text(from));
  return true;
}

}  // namespace accrete::inline v0::io
