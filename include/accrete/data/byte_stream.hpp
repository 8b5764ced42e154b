#pragma once
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>
#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "accrete/core/error.hpp"
#include "accrete/io/message_text.hpp"

namespace accrete::inline v0::data {

/// How a file's bytes are packed, by its last extension: .gz, .zst.
enum class packing : std::uint8_t { none, gzip, zstd };

[[nodiscard]] inline packing packing_of(std::filesystem::path const& path) {
  auto const name = path.native();
  if (name.ends_with(".gz")) return packing::gzip;
  return name.ends_with(".zst") ? packing::zstd : packing::none;
}

/// Reads a file from its first byte to its last, unpacked on the way, in pieces and never whole. Several packed
/// streams in a row are one. Throws `io_error` that begins with `where` when the file cannot be read, is packed
/// otherwise or cut short.
class byte_stream {
 public:
  byte_stream(std::filesystem::path const& path, std::string where)
      : where_(std::move(where)), packing_(packing_of(path)) {
    handle_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (handle_ < 0)
      fail("'" + std::system_category().message(errno) + "'", "a readable file", "check its permissions");
    if (packing_ == packing::gzip) {
      inflating_ = std::make_unique<z_stream>();
      if (inflateInit2(inflating_.get(), 15 + 16) != Z_OK) {  // gzip's header and checksum
        ::close(handle_);
        throw std::bad_alloc();
      }
    }
    if (packing_ == packing::zstd) zstd_.reset(ZSTD_createDStream());
    if (packing_ != packing::none) packed_.resize(std::size_t(1) << 17);
  }
  byte_stream(byte_stream const&) = delete;
  byte_stream& operator=(byte_stream const&) = delete;
  ~byte_stream() {
    if (inflating_) inflateEnd(inflating_.get());
    if (handle_ >= 0) ::close(handle_);
  }

  /// The next bytes, as many as there is room for; fewer at the end only, and then none.
  [[nodiscard]] std::size_t read(std::span<char> out) {
    std::size_t done = 0;
    while (done < out.size()) {
      auto const n = some(out.subspan(done));
      if (n == 0) break;
      done += n;
    }
    return done;
  }

  /// Passes over so many bytes. Throws `io_error` when there are fewer.
  void skip(std::uint64_t count) {
    std::vector<char> away(std::size_t((std::min)(count, std::uint64_t(1) << 17)));
    while (count > 0) {
      auto const n = read(std::span(away).first(std::size_t((std::min)(count, std::uint64_t(away.size())))));
      if (n == 0)
        fail(std::to_string(count) + " bytes fewer than before", "the file that was there before", "");
      count -= n;
    }
  }

  /// Bytes of the file itself that have been read: how far along it is.
  [[nodiscard]] std::uint64_t consumed() const { return consumed_; }

 private:
  [[noreturn]] void fail(std::string const& got, std::string const& want, std::string const& hint) const {
    throw io_error(where_, got, want, hint);
  }

  [[nodiscard]] std::size_t read_raw(std::span<char> out) {
    for (;;) {
      auto const n = ::read(handle_, out.data(), out.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0)
        fail("'" + std::system_category().message(errno) + "'", "a readable file", "is the disk whole?");
      consumed_ += std::uint64_t(n);
      return std::size_t(n);
    }
  }

  // At least one byte, unless it is over.
  [[nodiscard]] std::size_t some(std::span<char> out) {
    if (packing_ == packing::none) return read_raw(out);
    for (;;) {
      bool const had_input = first_ < last_;
      if (!had_input) {
        first_ = 0;
        last_ = read_raw(packed_);
        if (last_ == 0) {
          if (inside_) fail("a packed file that is cut short", "it whole", "fetch or write it again");
          if (consumed_ == 0) fail("an empty file", "a packed one", "fetch or write it again");
          return 0;
        }
      }
      auto const n = packing_ == packing::gzip ? inflate_some(out) : unzstd_some(out);
      if (n > 0) return n;
    }
  }
  [[nodiscard]] std::size_t inflate_some(std::span<char> out) {
    z_stream& z = *inflating_;
    auto const room = (std::min)(out.size(), std::size_t(1) << 30);
    z.next_in = reinterpret_cast<Bytef*>(packed_.data() + first_);
    z.avail_in = uInt(last_ - first_);
    z.next_out = reinterpret_cast<Bytef*>(out.data());
    z.avail_out = uInt(room);
    inside_ = true;
    int const code = inflate(&z, Z_NO_FLUSH);
    first_ = last_ - z.avail_in;
    if (code == Z_STREAM_END) {  // another may follow
      inside_ = false;
      inflateReset(&z);
    } else if (code == Z_MEM_ERROR) {
      throw std::bad_alloc();
    } else if (code != Z_OK && code != Z_BUF_ERROR) {
      fail("'" + std::string(z.msg != nullptr ? z.msg : "damaged") + "'", "gzip data",
           "fetch or write it again");
    }
    return room - z.avail_out;
  }
  [[nodiscard]] std::size_t unzstd_some(std::span<char> out) {
    if (!zstd_) throw std::bad_alloc();
    ZSTD_inBuffer in{packed_.data(), last_, first_};
    ZSTD_outBuffer to{out.data(), out.size(), 0};
    auto const left = ZSTD_decompressStream(zstd_.get(), &to, &in);
    if (ZSTD_isError(left) != 0)
      fail("'" + std::string(ZSTD_getErrorName(left)) + "'", "zstd data", "fetch or write it again");
    inside_ = left != 0;
    first_ = in.pos;
    return to.pos;
  }

  struct free_zstd {
    void operator()(ZSTD_DStream* p) const { ZSTD_freeDStream(p); }
  };

  std::string where_;
  packing packing_;
  int handle_ = -1;
  std::uint64_t consumed_ = 0;
  std::unique_ptr<z_stream> inflating_;
  std::unique_ptr<ZSTD_DStream, free_zstd> zstd_;
  std::vector<char> packed_;
  std::size_t first_ = 0, last_ = 0;  // of what is left in `packed_`
  bool inside_ = false;               // of a packed stream
};

}  // namespace accrete::inline v0::data
