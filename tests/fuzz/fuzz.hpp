#pragma once
#include <sanitizer/allocator_interface.h>
#include <sanitizer/common_interface_defs.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "accrete/core/error.hpp"
#include "accrete/core/view.hpp"
#include "accrete/data/tokenizer.hpp"
#include "accrete/data/utf8.hpp"
#include "accrete/io/weight_source.hpp"
#include "support/files.hpp"

/// What the fuzzed readers have in common: an input lies in a file that is read as a user would read it, an
/// error of the library in one clean line is a good end, and memory stays within the input's size times a
/// factor. Everything else (a crash, another exception, a report of a sanitizer) stops the fuzzer by itself.
namespace fuzz {

/// Of one input: most bytes in memory at once are `base + factor * its size`, the file's mapping aside.
struct budget {
  std::size_t base, factor;
};

namespace detail {
inline std::atomic<std::size_t> live{0};
inline std::atomic<std::size_t> most{SIZE_MAX};  // that `live` may reach

[[noreturn]] inline void fail(char const* what, std::string_view text) {
  std::fprintf(stderr, "fuzz: %s: %.*s\n", what, int(text.size()), text.data());
  std::abort();  // libFuzzer keeps the input and shows the stack
}

inline void on_malloc(void const volatile*, std::size_t size) {
  if (live.fetch_add(size) + size <= most.load()) return;
  most = SIZE_MAX;  // what is printed now may allocate
  std::fprintf(stderr, "fuzz: %zu bytes on top of %zu\n", size, live.load() - size);
  fail("more memory than the budget", "(the stack below shows who asked)");
}
inline void on_free(void const volatile* at) {
  live -= __sanitizer_get_allocated_size(const_cast<void const*>(at));
}

/// Errors are one line of printable UTF-8, `where: got .., expected ..`, and no file's content makes them long.
inline void check_message(std::string_view text) {
  if (text.size() > 4096) fail("a message of more than 4096 bytes", text);
  if (accrete::data::find_invalid_utf8(text) != text.npos) fail("a message that is not UTF-8", text);
  if (std::any_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; }))
    fail("a message with control characters", text);
  if (text.find(": got ") == text.npos || text.find(", expected ") == text.npos)
    fail("a message without 'got' and 'expected'", text);
}
}  // namespace detail

/// A folder in memory for one process, gone at its end; TMPDIR says where.
inline std::filesystem::path const& folder() {
  static test::temporary_folder const made;
  return made.path();
}
/// The same bytes in a file there, anew for each input.
inline std::filesystem::path write(std::filesystem::path const& name, std::string_view bytes) {
  return test::write_file(folder() / name, bytes);
}

/// Calls `read`, which may end in an error of the library and in no other. True where it ended without.
template <class Read>
bool reads(Read&& read) {
  try {
    read();
    return true;
  } catch (accrete::error const& e) {
    detail::check_message(e.what());
    return false;
  }
}

/// Calls `read(std::string_view input)` within a budget of memory.
template <class Read>
int run(std::uint8_t const* data, std::size_t size, budget allowed, Read&& read) {
  static int const hooked = __sanitizer_install_malloc_and_free_hooks(detail::on_malloc, detail::on_free);
  if (hooked == 0) detail::fail("no malloc hooks", "expected a place for them");
  (void)folder();
  detail::live = std::size_t(1) << 40;  // what was allocated before and is freed in between does not pass zero
  detail::most = detail::live + allowed.base + allowed.factor * size;
  read(std::string_view(reinterpret_cast<char const*>(data), size));
  detail::most = SIZE_MAX;
  return 0;
}

/// Input `number` of several in one, which a zero separates; empty where there are fewer.
inline std::string_view part(std::string_view input, int number) {
  for (; number > 0; --number) {
    auto const zero = input.find('\0');
    if (zero == input.npos) return {};
    input.remove_prefix(zero + 1);
  }
  return input.substr(0, input.find('\0'));
}

inline void touch(void const* bytes, std::size_t size) {
  unsigned sum = 0;
  for (std::size_t i = 0; i < size; ++i) sum += static_cast<unsigned char const*>(bytes)[i];
  [[maybe_unused]] unsigned volatile const kept = sum;
}

/// Every row of every weight, one at a time.
inline void read_all(accrete::io::weight_source const& source) {
  std::vector<float> row;
  (void)source.identity();
  accrete::io::detail::for_each_tensor(source.config, [&](std::string const& name, auto) {
    auto const [rows, columns] = source.shape(name);
    row.resize(std::size_t(columns));
    for (accrete::index_t r = 0; r < rows; ++r)
      source.read_rows(name, r, accrete::view<float, 2>(row.data(), {1, columns}));
  });
}

/// Encodes and decodes a few texts, asks for every token.
inline void use(accrete::data::tokenizer const& words) {
  for (std::int32_t id = 0; id < words.vocab_size(); ++id) {
    touch(words.piece(id).data(), words.piece(id).size());
    (void)words.is_control(id);
  }
  (void)words.find("ab");
  (void)words.identity();
  for (std::string_view const text :
       {"", " ", "ab abc  a1234 it's\r\n\n\tAb",
        "\xC3\xA9 e\xCC\x81 \xE4\xBD\xA0\xE5\xA5\xBD \xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x94\xA7",
        "<|end|> <s>ab</s>", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!"})
    for (auto const how : {accrete::data::special::as_text, accrete::data::special::parse})
      reads([&] {
        auto const ids = words.encode(text, how);
        auto const back = words.decode(ids);
        touch(back.data(), back.size());
      });
}

}  // namespace fuzz
