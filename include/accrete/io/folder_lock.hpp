#pragma once
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>
#include <cerrno>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "accrete/core/error.hpp"
#include "accrete/io/atomic_file.hpp"
#include "accrete/io/message_text.hpp"

namespace accrete::inline v0::io {

/// A folder with one writer: while this lives, no other process gets the same lock. It is the system's (flock
/// on the file `.lock`), so it ends with the process, however that ends, and a file that a crash left there
/// locks nobody out. Throws io_error that names the process which has the folder. Where the file system knows
/// no locks (some network ones), nothing is held, and held() says so.
class folder_lock {
 public:
  explicit folder_lock(std::filesystem::path const& folder) : folder_(folder), path_(folder / ".lock") {
    for (;;) {
      handle_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
      if (handle_ < 0)
        throw io_error(where(), detail::system_text(errno, path_), "to lock it",
                       "does it exist, and may you write there?");
      if (::flock(handle_, LOCK_EX | LOCK_NB) != 0) {
        int const code = errno;
        std::string const owner = code == EWOULDBLOCK ? read_owner() : std::string();
        ::close(std::exchange(handle_, -1));
        if (code == EINTR) continue;
        if (code == EWOULDBLOCK)
          throw io_error(where(), owner + " writing there", "no other",
                         "wait for it or end it, or give another folder");
        ::unlink(path_.c_str());
        return;
      }
      // The one who had it may have removed the file between our two calls: then this locks nothing.
      struct stat held {};
      struct stat named {};
      if (::fstat(handle_, &held) == 0 && ::stat(path_.c_str(), &named) == 0 && held.st_ino == named.st_ino &&
          held.st_dev == named.st_dev)
        break;
      ::close(std::exchange(handle_, -1));
    }
    write_owner();
  }
  folder_lock(folder_lock&& other) noexcept
      : folder_(std::move(other.folder_)),
        path_(std::move(other.path_)),
        handle_(std::exchange(other.handle_, -1)) {}
  folder_lock& operator=(folder_lock&&) = delete;
  folder_lock(folder_lock const&) = delete;
  folder_lock& operator=(folder_lock const&) = delete;
  ~folder_lock() {
    if (handle_ < 0) return;
    ::unlink(path_.c_str());  // before it is given up: whoever opened this file sees that it is gone
    ::close(handle_);
  }

  [[nodiscard]] bool held() const { return handle_ >= 0; }

 private:
  [[nodiscard]] std::string where() const { return "folder " + path_text(folder_); }

  [[nodiscard]] std::string read_owner() const {
    char text[160];
    ssize_t const n = ::pread(handle_, text, sizeof text, 0);
    std::string const owner = n > 0 ? std::string(text, std::size_t(n)) : std::string();
    auto const end = owner.find('\n');  // one that was just locked has nothing in it yet
    return end == std::string::npos ? "another process" : name_text(owner.substr(0, end));
  }
  void write_owner() const {
    char host[128] = "?";
    if (::gethostname(host, sizeof host - 1) != 0) host[0] = 0;
    std::string const text = "process " + std::to_string(::getpid()) + " on " + host + "\n";
    // For the eye of whoever is refused; the lock holds without it, also on a full disk.
    if (::ftruncate(handle_, 0) != 0 || ::pwrite(handle_, text.data(), text.size(), 0) < 0) return;
  }

  std::filesystem::path folder_, path_;
  int handle_ = -1;
};

}  // namespace accrete::inline v0::io
