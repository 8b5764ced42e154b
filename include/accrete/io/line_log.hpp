#pragma once
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "accrete/core/error.hpp"
#include "accrete/io/atomic_file.hpp"
#include "accrete/io/message_text.hpp"

namespace accrete::inline v0::io {

/// A log of lines (log.jsonl) that only grows. Each line goes to the system whole and at once, so that others
/// can follow it and a killed run keeps all it said. A line that a crash cut short is dropped on opening, one
/// that a full disk cut short is taken back before the error is thrown: a reader sees whole lines only.
class line_log {
 public:
  enum class start { append, fresh };

  /// `fresh` empties a log that is there; `append` goes on after its last whole line.
  explicit line_log(std::filesystem::path path, start how = start::append) : path_(std::move(path)) {
    int const flags = O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | (how == start::fresh ? O_TRUNC : 0);
    handle_ = ::open(path_.c_str(), flags, 0666);
    if (handle_ < 0)
      throw io_error(where(), detail::system_text(errno, path_), "to open it for appending",
                     "does its folder exist, and may you write there?");
    try {
      drop_torn_line();
    } catch (...) {
      ::close(handle_);
      throw;
    }
  }
  line_log(line_log const&) = delete;
  line_log& operator=(line_log const&) = delete;
  ~line_log() { ::close(handle_); }

  /// Adds one line; `line` comes without its end.
  void append(std::string_view line) {
    if (line.find('\n') != std::string_view::npos)
      throw io_error(where(), "a line with a line break in it", "one line at a time");
    std::string const whole = std::string(line) + '\n';
    std::uint64_t done = 0;
    int const code = detail::write_all(handle_, std::as_bytes(std::span(whole.data(), whole.size())), done);
    if (code != 0) {
      if (plain_ && done != 0 && ::ftruncate(handle_, size_) != 0) {
      }  // best effort: the error below is the one to report
      throw io_error(where(), detail::system_text(code, path_),
                     "to append a line of " + bytes_text(whole.size()),
                     "make room; the lines before it are whole");
    }
    size_ += off_t(done);
  }

 private:
  [[nodiscard]] std::string where() const { return "io::line_log " + path_text(path_); }

  void drop_torn_line() {
    struct stat facts {};
    if (::fstat(handle_, &facts) != 0) throw io_error(where(), detail::system_text(errno, path_), "its size");
    plain_ = S_ISREG(facts.st_mode);
    if (!plain_) return;  // a pipe or a terminal
    off_t const all = facts.st_size;
    off_t keep = all;
    for (bool found = false; keep > 0 && !found;) {
      char piece[4096];
      off_t const first = keep > off_t(sizeof piece) ? keep - off_t(sizeof piece) : 0;
      ssize_t const n = ::pread(handle_, piece, std::size_t(keep - first), first);
      if (n != ssize_t(keep - first))
        throw io_error(where(), "a file that cannot be read back", "its last line");
      std::string_view const text(piece, std::size_t(n));
      auto const end = text.rfind('\n');
      found = end != std::string_view::npos;
      keep = found ? first + off_t(end) + 1 : first;
    }
    if (keep != all && ::ftruncate(handle_, keep) != 0)
      throw io_error(where(), detail::system_text(errno, path_), "to drop its last, unfinished line");
    size_ = keep;
  }

  std::filesystem::path path_;
  int handle_ = -1;
  bool plain_ = false;
  off_t size_ = 0;
};

}  // namespace accrete::inline v0::io
