#pragma once
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "accrete/core/error.hpp"
#include "accrete/io/message_text.hpp"

namespace accrete::inline v0::io {

/// A file's bytes in memory, read-only, paged in by the system as they are touched. Moving it keeps the
/// addresses, so views into it stay good. Whoever replaces such a file must write a new one and rename it
/// (atomic_file does): cutting the old one short takes the pages away under the reader.
/// Throws io_error when the path is missing, not a plain file, empty or unreadable.
class mapped_file {
 public:
  explicit mapped_file(std::filesystem::path path) : path_(std::move(path)) {
    int const handle = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (handle < 0) {
      int const code = errno;
      fail("'" + std::system_category().message(code) + "'",
           code == ENOENT ? "check the path" : "check the file's permissions");
    }
    struct stat facts {};
    if (::fstat(handle, &facts) != 0) {
      int const code = errno;
      ::close(handle);
      fail("'" + std::system_category().message(code) + "'", "");
    }
    if (!S_ISREG(facts.st_mode) || facts.st_size == 0) {
      ::close(handle);
      fail(S_ISDIR(facts.st_mode)   ? "a directory"
           : S_ISREG(facts.st_mode) ? "an empty file"
                                    : "a special file",
           S_ISREG(facts.st_mode) ? "fetch or write it again" : "give the file itself");
    }
    size_ = std::size_t(facts.st_size);
    void* const at = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, handle, 0);
    int const code = errno;
    ::close(handle);  // the mapping holds the file by itself
    if (at == MAP_FAILED) fail("'" + std::system_category().message(code) + "' from mmap", "");
    data_ = static_cast<std::byte const*>(at);
  }
  mapped_file(mapped_file&& other) noexcept
      : path_(std::move(other.path_)),
        data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)) {}
  mapped_file& operator=(mapped_file&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  mapped_file(mapped_file const&) = delete;
  mapped_file& operator=(mapped_file const&) = delete;
  ~mapped_file() {
    if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
  }

  [[nodiscard]] std::span<std::byte const> bytes() const { return {data_, size_}; }
  [[nodiscard]] std::string_view text() const { return {reinterpret_cast<char const*>(data_), size_}; }
  [[nodiscard]] std::filesystem::path const& path() const { return path_; }

 private:
  [[noreturn]] void fail(std::string const& got, std::string const& hint) const {
    throw io_error("io::mapped_file " + path_text(path_), got, "a readable file that is not empty", hint);
  }

  std::filesystem::path path_;
  std::byte const* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace accrete::inline v0::io
