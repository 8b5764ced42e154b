#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "accrete/core/error.hpp"
#include "accrete/io/bytes.hpp"
#include "accrete/io/ggml_type.hpp"
#include "accrete/io/message_text.hpp"

namespace accrete::inline v0::io::detail {

/// Kinds of metadata values, with the file's own numbers.
enum class gguf_kind : std::uint32_t {
  uint8 = 0,
  int8 = 1,
  uint16 = 2,
  int16 = 3,
  uint32 = 4,
  int32 = 5,
  float32 = 6,
  boolean = 7,
  string = 8,
  array = 9,
  uint64 = 10,
  int64 = 11,
  float64 = 12,
};

[[nodiscard]] inline std::string name_of(gguf_kind kind) {
  constexpr std::array<char const*, 13> names{"uint8",  "int8",    "uint16", "int16",  "uint32",
                                              "int32",  "float32", "bool",   "string", "array",
                                              "uint64", "int64",   "float64"};
  auto const i = std::size_t(kind);
  return i < names.size() ? names[i] : "kind " + std::to_string(i);
}

/// Bytes of a value whose size does not depend on its content; 0 for strings, arrays and unknown kinds.
[[nodiscard]] constexpr std::uint64_t fixed_size(gguf_kind kind) {
  constexpr std::array<std::uint8_t, 13> sizes{1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return std::size_t(kind) < sizes.size() ? sizes[std::size_t(kind)] : 0;
}
/// The same for a value that has been checked and lies at `at`; strings count their length word.
[[nodiscard]] inline std::uint64_t stored_size(gguf_kind kind, std::byte const* at) {
  return kind == gguf_kind::string ? 8 + load<std::uint64_t>(at) : fixed_size(kind);
}

/// An integer of any stored width.
struct gguf_integer {
  std::uint64_t bits;
  bool negative;
  [[nodiscard]] std::int64_t as_signed() const { return static_cast<std::int64_t>(bits); }
  [[nodiscard]] std::string text() const {
    return negative ? std::to_string(as_signed()) : std::to_string(bits);
  }
};
[[nodiscard]] inline std::optional<gguf_integer> stored_integer(gguf_kind kind, std::byte const* at) {
  auto const plus = [](std::uint64_t v) { return gguf_integer{v, false}; };
  auto const sign = [](std::int64_t v) { return gguf_integer{static_cast<std::uint64_t>(v), v < 0}; };
  switch (kind) {
    case gguf_kind::uint8:
      return plus(load<std::uint8_t>(at));
    case gguf_kind::uint16:
      return plus(load<std::uint16_t>(at));
    case gguf_kind::uint32:
      return plus(load<std::uint32_t>(at));
    case gguf_kind::uint64:
      return plus(load<std::uint64_t>(at));
    case gguf_kind::int8:
      return sign(load<std::int8_t>(at));
    case gguf_kind::int16:
      return sign(load<std::int16_t>(at));
    case gguf_kind::int32:
      return sign(load<std::int32_t>(at));
    case gguf_kind::int64:
      return sign(load<std::int64_t>(at));
    default:
      return std::nullopt;
  }
}

struct gguf_entry {
  std::string_view key;
  gguf_kind type{};
  gguf_kind element{};               ///< of an array
  std::uint64_t count = 0;           ///< of an array
  std::span<std::byte const> bytes;  ///< the value (a string with its length word), or an array's elements
};
struct gguf_record {
  std::string_view name;
  ggml_type type{};
  std::array<std::uint64_t, 4> dimensions{};  ///< fastest first, as stored
  std::uint32_t rank = 0;
  std::uint64_t offset = 0;  ///< from the start of the tensor data
  std::uint64_t size = 0;    ///< bytes, computed from the shape; never past the file's own size
};

/// Walks a GGUF header. No step reads, or lets the caller allocate, past what the file can hold.
class gguf_reader {
 public:
  struct counts {
    std::uint64_t tensors;
    std::uint64_t entries;
  };

  gguf_reader(std::span<std::byte const> bytes, std::string where) : bytes_(bytes), where_(std::move(where)) {}

  [[nodiscard]] std::uint64_t position() const { return at_; }
  [[nodiscard]] std::span<std::byte const> everything() const { return bytes_; }

  counts header() {
    if (bytes_.size() < 4 || std::string_view(reinterpret_cast<char const*>(bytes_.data()), 4) != "GGUF")
      throw io_error(where_, "a file that does not begin with 'GGUF'", "a GGUF file",
                     "a Hugging Face model is opened by its directory");
    at_ = 4;
    auto const version = number<std::uint32_t>("the version");
    if (version != 2 && version != 3)
      throw io_error(where_, "version " + std::to_string(version), "version 2 or 3",
                     (version & 0xFFFFu) == 0 ? "it was written for big-endian machines" : "convert it again");
    counts c{};
    c.tensors = number<std::uint64_t>("the tensor count");
    c.entries = number<std::uint64_t>("the key count");
    // the shortest key and value take 13 bytes, the shortest tensor record 24
    if (c.entries > left() / 13)
      throw io_error(where_, std::to_string(c.entries) + " keys",
                     "no more than " + bytes_text(left()) + " can hold");
    if (c.tensors > left() / 24)
      throw io_error(where_, std::to_string(c.tensors) + " tensors",
                     "no more than " + bytes_text(left()) + " can hold");
    return c;
  }

  gguf_entry entry() {
    gguf_entry e;
    e.key = string("a key");
    std::string const what = "key " + name_text(e.key);
    e.type = gguf_kind(number<std::uint32_t>(what));
    if (e.type == gguf_kind::array) {
      e.element = gguf_kind(number<std::uint32_t>(what));
      e.count = number<std::uint64_t>(what);
      std::uint64_t const least = e.element == gguf_kind::string ? 8 : fixed_size(e.element);
      if (least == 0)
        throw io_error(where_ + ": " + what, "an array of " + name_of(e.element),
                       "an array of numbers or strings");
      if (e.count > left() / least)
        throw io_error(where_ + ": " + what, std::to_string(e.count) + " elements of " + name_of(e.element),
                       "no more than the " + bytes_text(left()) + " left can hold",
                       "the file may be cut short");
      std::uint64_t const first = at_;
      if (e.element == gguf_kind::string)
        for (std::uint64_t i = 0; i < e.count; ++i) string(what);
      else
        at_ += e.count * least;
      e.bytes = bytes_.subspan(std::size_t(first), std::size_t(at_ - first));
    } else {
      std::uint64_t const first = at_;
      if (e.type == gguf_kind::string) {
        string(what);
      } else {
        std::uint64_t const size = fixed_size(e.type);
        if (size == 0)
          throw io_error(where_ + ": " + what, "a value of kind " + std::to_string(std::uint32_t(e.type)),
                         "a kind from 0 to 12");
        need(size, what);
        at_ += size;
      }
      e.bytes = bytes_.subspan(std::size_t(first), std::size_t(at_ - first));
    }
    return e;
  }

  gguf_record record() {
    gguf_record r;
    r.name = string("a tensor's name");
    std::string const what = "tensor " + name_text(r.name);
    std::string const here = where_ + ": " + what;
    r.rank = number<std::uint32_t>(what);
    if (r.rank == 0 || r.rank > r.dimensions.size())
      throw io_error(here, std::to_string(r.rank) + " dimensions", "1 to 4");
    std::optional<std::uint64_t> numbers = 1;
    for (std::uint32_t d = 0; d < r.rank; ++d) {
      r.dimensions[d] = number<std::uint64_t>(what);
      if (r.dimensions[d] == 0) throw io_error(here, "a dimension of 0", "dimensions of 1 or more");
      if (numbers) numbers = multiply(*numbers, r.dimensions[d]);
    }
    r.type = ggml_type(number<std::uint32_t>(what));
    r.offset = number<std::uint64_t>(what);
    auto const layout = layout_of(r.type);
    if (!layout)
      throw io_error(here, name_of(r.type), "a known GGML type",
                     "a newer format; convert the model to Q8_0 or F16");
    if (r.dimensions[0] % layout->block != 0)
      throw io_error(here, "rows of " + std::to_string(r.dimensions[0]) + " numbers in " + layout->name,
                     "a multiple of " + std::to_string(layout->block));
    auto const size = numbers ? multiply(*numbers / layout->block, layout->bytes) : std::nullopt;
    if (!size || *size > bytes_.size())
      throw io_error(here, (size ? bytes_text(*size) : "more than 2^63 bytes") + " of data",
                     "no more than the file's " + bytes_text(bytes_.size()), "the file may be cut short");
    r.size = *size;
    return r;
  }

 private:
  [[nodiscard]] std::uint64_t left() const { return bytes_.size() - at_; }
  void need(std::uint64_t count, std::string const& what) const {
    if (count > left())
      throw io_error(where_ + ": " + what, bytes_text(left()) + " left", std::to_string(count) + " more",
                     "the file may be cut short; fetch it again");
  }
  template <class T>
  T number(std::string const& what) {
    need(sizeof(T), what);
    T const value = load<T>(bytes_.data() + at_);
    at_ += sizeof(T);
    return value;
  }
  std::string_view string(std::string const& what) {
    auto const length = number<std::uint64_t>(what);
    need(length, what);
    std::string_view const text(reinterpret_cast<char const*>(bytes_.data() + at_), std::size_t(length));
    at_ += length;
    return text;
  }

  std::span<std::byte const> bytes_;
  std::string where_;
  std::uint64_t at_ = 0;
};

}  // namespace accrete::inline v0::io::detail
