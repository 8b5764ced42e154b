#pragma once
#include <zlib.h>
#include <zstd.h>

#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>

#include "support/files.hpp"

namespace test {

inline std::string gzipped(std::string_view text) {
  z_stream z{};
  std::string out(text.size() + text.size() / 10 + 200, '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  z.avail_in = uInt(text.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = uInt(out.size());
  bool const done = deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK &&
                    deflate(&z, Z_FINISH) == Z_STREAM_END;
  out.resize(out.size() - z.avail_out);
  deflateEnd(&z);
  if (!done) throw std::runtime_error("test::gzipped: got no packed text");
  return out;
}
inline std::string zstd_packed(std::string_view text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  auto const n = ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3);
  if (ZSTD_isError(n) != 0) throw std::runtime_error("test::zstd_packed: got no packed text");
  out.resize(n);
  return out;
}

}  // namespace test
