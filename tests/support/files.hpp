#pragma once
#include <stdlib.h>
#include <sys/resource.h>
#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "accrete/core/error.hpp"

namespace test {

/// A folder of its own for one test, removed with all in it.
class temporary_folder {
 public:
  temporary_folder() {
    std::string name = (std::filesystem::temp_directory_path() / "accrete-test-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr)
      throw std::runtime_error("test::temporary_folder: got no folder " + name);
    path_ = name;
  }
  temporary_folder(temporary_folder const&) = delete;
  temporary_folder& operator=(temporary_folder const&) = delete;
  ~temporary_folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] std::filesystem::path const& path() const { return path_; }
  [[nodiscard]] std::filesystem::path operator/(std::string_view name) const { return path_ / name; }
  /// How many entries it has: what a failed write left behind.
  [[nodiscard]] std::ptrdiff_t entries() const {
    return std::distance(std::filesystem::directory_iterator(path_), std::filesystem::directory_iterator());
  }

 private:
  std::filesystem::path path_;
};

inline std::filesystem::path write_file(std::filesystem::path const& path, std::string_view bytes) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(bytes.data(), std::streamsize(bytes.size()));
  if (!out.flush()) throw std::runtime_error("test::write_file: got no " + path.string());
  return path;
}
inline std::string read_file(std::filesystem::path const& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("test::read_file: got no " + path.string());
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}
/// A file that is damaged in place, over and over: rewriting it whole would wait for the disk each time.
class damaged_file {
 public:
  damaged_file(std::filesystem::path path, std::string bytes)
      : path_(std::move(path)), good_(std::move(bytes)) {
    write_file(path_, good_);
    out_.open(path_, std::ios::in | std::ios::out | std::ios::binary);
  }
  [[nodiscard]] std::string const& good() const { return good_; }
  /// Calls `look` while `change` stands at byte `at`.
  template <class Look>
  void with(std::size_t at, std::string_view change, Look&& look) {
    put(at, change);
    look();
    put(at, std::string_view(good_).substr(at, change.size()));
  }
  template <class Look>
  void with_bit_flipped(std::size_t bit, Look&& look) {
    char const c = char(static_cast<unsigned char>(good_[bit / 8]) ^ (1u << bit % 8));
    with(bit / 8, std::string_view(&c, 1), look);
  }
  /// Calls `look` at every length below the whole, `step(n)` apart; the file stays cut.
  template <class Step, class Look>
  void cut(Step&& step, Look&& look) {
    for (std::size_t n = good_.size(); n > 0;) {
      n -= (std::min)(n, std::size_t(step(n)));
      std::filesystem::resize_file(path_, n);
      look(n);
    }
  }

 private:
  void put(std::size_t at, std::string_view bytes) {
    out_.seekp(std::streamoff(at));
    out_.write(bytes.data(), std::streamsize(bytes.size())).flush();
  }
  std::filesystem::path path_;
  std::string good_;
  std::fstream out_;
};
template <class T>
std::string bytes_of(std::vector<T> const& values) {
  std::string out(values.size() * sizeof(T), '\0');
  if (!values.empty()) std::memcpy(out.data(), values.data(), out.size());
  return out;
}

/// The text of the accrete::error that `call` throws; empty where it throws none. Other exceptions pass.
template <class Call>
std::string error_of(Call&& call) {
  try {
    call();
  } catch (accrete::error const& e) {
    return e.what();
  }
  return {};
}
inline bool one_line(std::string const& text) {
  return !text.empty() && text.find('\n') == std::string::npos;
}

/// No file may grow past `bytes` while this lives: a full disk that needs no disk.
class file_size_limit {
 public:
  explicit file_size_limit(std::size_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    rlimit limit = before_;
    limit.rlim_cur = bytes;
    handler_ = std::signal(SIGXFSZ, SIG_IGN);
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  file_size_limit(file_size_limit const&) = delete;
  file_size_limit& operator=(file_size_limit const&) = delete;
  ~file_size_limit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  void (*handler_)(int) = nullptr;
};

}  // namespace test
