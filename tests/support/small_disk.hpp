#pragma once
#include <fcntl.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "support/files.hpp"

namespace test {

/// A folder on a disk of its own that can be filled up, emptied and made read-only: a small tmpfs where
/// mounting is permitted. Elsewhere a plain folder where fill() limits the size of files, and a read-only one
/// is made of permissions: is_mounted() tells which of the two was tried.
class small_disk {
 public:
  explicit small_disk(std::size_t bytes) {
    auto const size = "size=" + std::to_string(bytes);
    std::filesystem::create_directory(path());
    mounted_ = ::mount("tmpfs", path().c_str(), "tmpfs", 0, size.c_str()) == 0;
  }
  small_disk(small_disk const&) = delete;
  small_disk& operator=(small_disk const&) = delete;
  ~small_disk() {
    limit_.reset();
    if (mounted_)
      while (::umount2(path().c_str(), MNT_DETACH) == 0) {
      }
    else
      set_writable(true);
  }

  [[nodiscard]] std::filesystem::path path() const { return folder_ / "disk"; }
  [[nodiscard]] bool is_mounted() const { return mounted_; }

  /// Leaves no room for as much as a page more; where nothing is mounted, for no file above `bytes`.
  void fill(std::size_t bytes) {
    if (!mounted_) {
      limit_.emplace(bytes);
      return;
    }
    int const file = ::open((path() / "filler").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    std::vector<char> const page(4096, 'x');
    while (::write(file, page.data(), page.size()) > 0) {
    }
    ::close(file);
  }
  void make_room() {
    limit_.reset();
    std::filesystem::remove(path() / "filler");
  }
  /// False where this process may write anyway, as root may.
  bool set_writable(bool on) {
    if (mounted_) {  // another mount of it on top: one that has files open for writing cannot turn read-only
      if (on) return ::umount2(path().c_str(), MNT_DETACH) == 0;
      return ::mount(path().c_str(), path().c_str(), nullptr, MS_BIND, nullptr) == 0 &&
             ::mount(nullptr, path().c_str(), nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY, nullptr) == 0;
    }
    using std::filesystem::perms;
    std::vector<std::filesystem::path> folders{path()};
    for (auto const& at : std::filesystem::recursive_directory_iterator(path()))
      if (at.is_directory()) folders.push_back(at.path());
    for (auto const& folder : folders)
      std::filesystem::permissions(folder, on ? perms::owner_all : perms::owner_read | perms::owner_exec);
    return ::geteuid() != 0;
  }

 private:
  temporary_folder folder_;
  std::optional<file_size_limit> limit_;
  bool mounted_ = false;
};

}  // namespace test
