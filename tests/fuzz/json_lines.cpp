// Text: lines of JSON, packed where the input begins as packed files do; also as a plain text and as token ids.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "accrete/data/open.hpp"
#include "accrete/data/text_files.hpp"
#include "accrete/data/text_stream.hpp"
#include "fuzz.hpp"

namespace ac = accrete;

namespace {
constexpr std::size_t longest = 1 << 16;  // of a line: what bounds a small file that unpacks to a large one

/// Every text once, then again from where a few of them begin, as a run that goes on does.
void read_texts(std::filesystem::path const& path) {
  ac::data::text_format const format{.field = "text", .max_text_bytes = longest};
  std::vector<std::pair<ac::data::text_position, std::string>> seen;
  std::size_t bytes = 0;
  fuzz::reads([&] {
    ac::data::text_stream all({path}, format);
    for (ac::data::raw_text raw; bytes < 4 * longest && all.next(raw);) {
      bytes += raw.bytes.size() + 1;
      if (seen.size() < 2) seen.emplace_back(raw.begin, raw.bytes);
      fuzz::reads([&] { (void)ac::data::text_of(std::move(raw), format); });
      raw = {};
    }
  });
  for (auto const& [from, text] : seen)
    fuzz::reads([&, &at = from, &wanted = text] {
      ac::data::raw_text raw;
      ac::data::text_stream rest({path}, format, at);
      if (!rest.next(raw) || raw.bytes != wanted) fuzz::detail::fail("another text than before", wanted);
    });
}
}  // namespace

// Pieces of 256 KiB, 128 KiB packed and a line of 64 KiB with JSON's 160 are what a plain file can take; a zstd
// stream may name a window of 128 MiB, which zstd allocates at once and never more.
extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  std::string_view const all(reinterpret_cast<char const*>(data), size);
  bool const gzip = all.starts_with("\x1F\x8B"), zstd = all.starts_with("\x28\xB5\x2F\xFD");
  std::size_t const base = (std::size_t(2) << 20) + (gzip || zstd ? 160 * longest : 0) + (zstd ? 130 << 20 : 0);
  return fuzz::run(data, size, {base, 160}, [&](std::string_view input) {
    read_texts(fuzz::write(gzip ? "text.jsonl.gz" : zstd ? "text.jsonl.zst" : "text.jsonl", input));
    if (gzip || zstd) return;
    auto const path = fuzz::write("text.txt", input);
    read_texts(path);
    fuzz::reads([&] { (void)ac::data::open_ids(path, 1000); });
  });
}
