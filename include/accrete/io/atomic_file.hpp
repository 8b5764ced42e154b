#pragma once
#include <fcntl.h>
#include <unistd.h>
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "accrete/core/error.hpp"
#include "accrete/io/message_text.hpp"

namespace accrete::inline v0::io {

namespace detail {

/// What the system says of an error, with the room left on the disk where that is the likely cause.
[[nodiscard]] inline std::string system_text(int code, std::filesystem::path const& path) {
  std::string text = "'" + std::system_category().message(code) + "'";
  if (code == ENOSPC || code == EDQUOT) {
    std::error_code ignored;
    auto const folder = path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
    auto const room = std::filesystem::space(folder, ignored);
    if (!ignored) text += " with " + bytes_text(room.available) + " free";
  }
  return text;
}

/// Writes all of it or returns the reason; `done` counts what did get out.
[[nodiscard]] inline int write_all(int handle, std::span<std::byte const> bytes, std::uint64_t& done) {
  while (!bytes.empty()) {
    constexpr std::size_t most = std::size_t(1) << 30;  // one call takes no more than 2 GiB on Linux
    ssize_t const n = ::write(handle, bytes.data(), (std::min)(bytes.size(), most));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    if (n == 0) return EIO;
    done += std::uint64_t(n);
    bytes = bytes.subspan(std::size_t(n));
  }
  return 0;
}

/// Makes a folder's names durable; the error's number, 0 where there is none. Some file systems cannot sync a
/// folder; then there is nothing to do.
[[nodiscard]] inline int sync_folder(std::filesystem::path const& folder) {
  int const handle = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (handle < 0) return 0;
  int const code = ::fsync(handle) == 0 ? 0 : errno;
  ::close(handle);
  return code == EINVAL || code == ENOTSUP || code == EROFS ? 0 : code;
}

/// A name beside `path` that no other writer uses.
[[nodiscard]] inline std::filesystem::path temporary_beside(std::filesystem::path path) {
  static std::atomic<unsigned> counter{0};  // two writers of one name in one process keep apart
  path += ".tmp." + std::to_string(::getpid()) + "." + std::to_string(counter++);
  return path;
}

}  // namespace detail

/// A file that is either wholly there or not at all: written beside its place as `name.tmp.<pid>.<n>`, synced,
/// and renamed over the old one by commit(). Without commit() the old file stays and the new one is removed;
/// only a killed process leaves the temporary one behind. The error of every write is checked. Throws io_error.
class atomic_file {
 public:
  explicit atomic_file(std::filesystem::path path) : path_(std::move(path)) {
    std::error_code code;
    auto const status = std::filesystem::status(path_, code);
    if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))
      throw io_error(where(), std::filesystem::is_directory(status) ? "a directory" : "a special file",
                     "a plain file or none at that place", "give another path");
    temporary_ = detail::temporary_beside(path_);
    buffer_.reserve(buffer_size);
    handle_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (handle_ < 0) fail(errno, "to create it", "does its folder exist, and may you write there?");
  }
  atomic_file(atomic_file const&) = delete;
  atomic_file& operator=(atomic_file const&) = delete;
  ~atomic_file() { discard(); }

  atomic_file& write(std::span<std::byte const> bytes) {
    require_open();
    if (buffer_.size() + bytes.size() > buffer_size) flush();
    if (bytes.size() >= buffer_size)
      put(bytes);
    else
      buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
    return *this;
  }
  atomic_file& write(std::string_view text) {
    return write(std::as_bytes(std::span(text.data(), text.size())));
  }

  /// Bytes taken so far.
  [[nodiscard]] std::uint64_t size() const { return written_ + buffer_.size(); }

  /// Makes the file appear at its place, for good: also through a power cut.
  void commit() {
    require_open();
    flush();
    if (::fsync(handle_) != 0) fail(errno, "to sync it", "");
    if (::close(std::exchange(handle_, -1)) != 0) fail(errno, "to close it", "");
    if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail(errno, "to rename " + path_text(temporary_), "");
    temporary_.clear();
    if (int const code = detail::sync_folder(path_.parent_path());
        code != 0)  // the new name itself is in there
      fail(code, "to sync its folder", "");
  }

 private:
  static constexpr std::size_t buffer_size = std::size_t(1) << 18;

  [[nodiscard]] std::string where() const { return "io::atomic_file " + path_text(path_); }
  void require_open() const {
    if (handle_ < 0) throw io_error(where(), "a call after commit() or an error", "no more of them");
  }
  void put(std::span<std::byte const> bytes) {
    int const code = detail::write_all(handle_, bytes, written_);
    if (code != 0)
      fail(code, "to write " + bytes_text(bytes.size()) + " more after " + bytes_text(written_),
           "nothing was changed; make room or give another folder");
  }
  void flush() {
    put(buffer_);
    buffer_.clear();
  }
  void discard() noexcept {
    if (handle_ >= 0) ::close(std::exchange(handle_, -1));
    if (!temporary_.empty()) ::unlink(temporary_.c_str());
    temporary_.clear();
  }
  [[noreturn]] void fail(int code, std::string const& want, std::string const& hint) {
    std::string const got = detail::system_text(code, path_);
    discard();
    throw io_error(where(), got, want, hint);
  }

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int handle_ = -1;
  std::uint64_t written_ = 0;
  std::vector<std::byte> buffer_;
};

/// A whole small file at once.
inline void write_atomically(std::filesystem::path const& path, std::string_view text) {
  atomic_file file(path);
  file.write(text);
  file.commit();
}

}  // namespace accrete::inline v0::io
