#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "accrete/core/error.hpp"
#include "accrete/core/view.hpp"
#include "accrete/io/bytes.hpp"
#include "accrete/io/detail/gguf_reader.hpp"
#include "accrete/io/ggml_type.hpp"
#include "accrete/io/mapped_file.hpp"
#include "accrete/io/message_text.hpp"

namespace accrete::inline v0::io {

/// One tensor of a GGUF file; views into the file's mapping.
struct gguf_tensor {
  std::string_view name;
  ggml_type type{};
  std::vector<index_t> shape;  ///< outermost first, row-major: {rows, columns}, or {n} for a vector
  std::span<std::byte const> bytes;

  [[nodiscard]] index_t columns() const { return shape.empty() ? 1 : shape.back(); }
  [[nodiscard]] index_t rows() const {  ///< all outer dimensions together; a vector is one row
    index_t n = 1;
    for (std::size_t d = 0; d + 1 < shape.size(); ++d) n *= shape[d];
    return n;
  }
};

/// A GGUF file, version 2 or 3, little endian. Opening it walks all of the metadata and checks every count,
/// length, offset and product against the file's size before use, so the accessors can only fail on a key's
/// absence or kind. Throws io_error in one line that names the file and the key or tensor.
class gguf_file {
 public:
  explicit gguf_file(std::filesystem::path path) : map_(std::move(path)) { parse(); }

  [[nodiscard]] bool has(std::string_view key) const { return find_entry(key) != nullptr; }

  /// The value of a key. T: bool, any integer type (the stored width does not matter, the range is checked),
  /// float, double, std::string_view, or a std::vector of one of these.
  template <class T>
  [[nodiscard]] T get(std::string_view key) const {
    detail::gguf_entry const* const found = find_entry(key);
    if (found == nullptr)
      throw io_error(where(), "no key " + name_text(key), "that key",
                     "the file may be of another kind of model");
    return decode<T>(*found);
  }
  template <class T>
  [[nodiscard]] T get(std::string_view key, T fallback) const {
    detail::gguf_entry const* const found = find_entry(key);
    return found == nullptr ? std::move(fallback) : decode<T>(*found);
  }

  [[nodiscard]] std::vector<gguf_tensor> const& tensors() const { return tensors_; }
  [[nodiscard]] gguf_tensor const* find_tensor(std::string_view name) const {
    auto const at = std::lower_bound(by_name_.begin(), by_name_.end(), name,
                                     [&](std::size_t i, std::string_view n) { return tensors_[i].name < n; });
    return at != by_name_.end() && tensors_[*at].name == name ? &tensors_[*at] : nullptr;
  }
  [[nodiscard]] gguf_tensor const& tensor(std::string_view name) const {
    gguf_tensor const* const found = find_tensor(name);
    if (found == nullptr)
      throw io_error(where(), "no tensor " + name_text(name),
                     "it among the file's " + std::to_string(tensors_.size()));
    return *found;
  }

  [[nodiscard]] std::filesystem::path const& path() const { return map_.path(); }
  [[nodiscard]] mapped_file const& map() const { return map_; }
  /// What messages about this file begin with.
  [[nodiscard]] std::string where() const { return "io::gguf " + path_text(map_.path()); }

 private:
  void parse() {
    detail::gguf_reader in(map_.bytes(), where());
    auto const counts = in.header();

    entries_.reserve(counts.entries);
    for (std::uint64_t i = 0; i < counts.entries; ++i) entries_.push_back(in.entry());
    std::sort(entries_.begin(), entries_.end(), [](auto const& a, auto const& b) { return a.key < b.key; });
    for (std::size_t i = 1; i < entries_.size(); ++i)
      if (entries_[i].key == entries_[i - 1].key)
        throw io_error(where(), "key " + name_text(entries_[i].key) + " twice", "each key once");

    auto const alignment = get<std::uint32_t>("general.alignment", 32);
    if (alignment == 0 || (alignment & (alignment - 1)) != 0 || alignment > (1u << 20))
      throw io_error(where() + ": key 'general.alignment'", std::to_string(alignment),
                     "a power of two up to 1048576");

    tensors_.reserve(counts.tensors);
    by_name_.reserve(counts.tensors);
    std::vector<std::uint64_t> offsets;
    offsets.reserve(counts.tensors);
    for (std::uint64_t i = 0; i < counts.tensors; ++i) {
      detail::gguf_record const r = in.record();
      tensors_.push_back({r.name, r.type, {}, in.everything().first(std::size_t(r.size))});
      tensors_.back().shape.assign(r.dimensions.rend() - std::ptrdiff_t(r.rank), r.dimensions.rend());
      by_name_.push_back(std::size_t(i));
      offsets.push_back(r.offset);
    }
    std::sort(by_name_.begin(), by_name_.end(),
              [&](std::size_t a, std::size_t b) { return tensors_[a].name < tensors_[b].name; });
    for (std::size_t i = 1; i < by_name_.size(); ++i)
      if (tensors_[by_name_[i]].name == tensors_[by_name_[i - 1]].name)
        throw io_error(where(), "tensor " + name_text(tensors_[by_name_[i]].name) + " twice",
                       "each tensor once");
    place(in.position(), alignment, offsets);
  }

  // The tensors' bytes begin at the next multiple of the alignment after the header.
  void place(std::uint64_t header_end, std::uint64_t alignment, std::vector<std::uint64_t> const& offsets) {
    std::uint64_t const total = map_.bytes().size();
    std::uint64_t const start = (header_end + alignment - 1) / alignment * alignment;
    std::uint64_t const available = start < total ? total - start : 0;
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      std::uint64_t const size = tensors_[i].bytes.size();
      std::string const here = where() + ": tensor " + name_text(tensors_[i].name);
      if (offsets[i] % alignment != 0)
        throw io_error(here, "offset " + std::to_string(offsets[i]),
                       "a multiple of the alignment " + std::to_string(alignment));
      if (offsets[i] > available || size > available - offsets[i])
        throw io_error(here, "bytes " + std::to_string(offsets[i]) + " to +" + std::to_string(size),
                       "them inside the " + std::to_string(available) + " bytes of tensor data",
                       "the file may be cut short; fetch it again");
      tensors_[i].bytes = map_.bytes().subspan(std::size_t(start + offsets[i]), std::size_t(size));
    }
    std::vector<std::size_t> order(by_name_);
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return offsets[a] < offsets[b]; });
    for (std::size_t i = 1; i < order.size(); ++i)
      if (offsets[order[i]] < offsets[order[i - 1]] + tensors_[order[i - 1]].bytes.size())
        throw io_error(where() + ": tensor " + name_text(tensors_[order[i]].name),
                       "bytes shared with " + name_text(tensors_[order[i - 1]].name),
                       "tensors that do not overlap");
  }

  [[nodiscard]] detail::gguf_entry const* find_entry(std::string_view key) const {
    auto const at = std::lower_bound(entries_.begin(), entries_.end(), key,
                                     [](auto const& e, std::string_view k) { return e.key < k; });
    return at != entries_.end() && at->key == key ? &*at : nullptr;
  }

  template <class T>
  struct is_vector : std::false_type {};
  template <class T>
  struct is_vector<std::vector<T>> : std::true_type {};

  template <class T>
  [[nodiscard]] T decode(detail::gguf_entry const& e) const {
    if constexpr (is_vector<T>::value) {
      if (e.type != detail::gguf_kind::array) mismatch(e, name_of(e.type), "an array");
      T out;
      out.reserve(std::size_t(e.count));  // checked against the file's size when it was opened
      std::byte const* at = e.bytes.data();
      for (std::uint64_t i = 0; i < e.count; ++i) {
        out.push_back(scalar<typename T::value_type>(e, e.element, at));
        at += detail::stored_size(e.element, at);
      }
      return out;
    } else {
      return scalar<T>(e, e.type, e.bytes.data());
    }
  }

  template <class T>
  [[nodiscard]] T scalar(detail::gguf_entry const& e, detail::gguf_kind kind, std::byte const* at) const {
    if constexpr (std::same_as<T, bool>) {
      if (kind != detail::gguf_kind::boolean) mismatch(e, name_of(kind), "a bool");
      auto const raw = load<std::uint8_t>(at);
      if (raw > 1) mismatch(e, std::to_string(raw), "a bool, 0 or 1");
      return raw == 1;
    } else if constexpr (std::integral<T>) {
      auto const value = detail::stored_integer(kind, at);
      if (!value) mismatch(e, name_of(kind), "an integer");
      bool const fits = value->negative ? std::in_range<T>(value->as_signed()) : std::in_range<T>(value->bits);
      if (!fits)
        mismatch(e, value->text(),
                 "an integer that fits " + std::to_string(sizeof(T) * 8) + " bits" +
                     (std::unsigned_integral<T> ? " and is not negative" : ""));
      return value->negative ? T(value->as_signed()) : T(value->bits);
    } else if constexpr (std::floating_point<T>) {
      if (kind == detail::gguf_kind::float32) return T(load<float>(at));
      if (kind == detail::gguf_kind::float64) return T(load<double>(at));
      mismatch(e, name_of(kind), "a float");
    } else {
      static_assert(std::same_as<T, std::string_view>,
                    "[accrete] gguf_file::get: T must be bool, an integer, a float, std::string_view or a "
                    "std::vector of one of them");
      if (kind != detail::gguf_kind::string) mismatch(e, name_of(kind), "a string");
      return {reinterpret_cast<char const*>(at) + 8, std::size_t(load<std::uint64_t>(at))};
    }
  }

  [[noreturn]] void mismatch(detail::gguf_entry const& e, std::string const& got,
                             std::string const& want) const {
    throw io_error(where() + ": key " + name_text(e.key), got, want);
  }

  mapped_file map_;
  std::vector<detail::gguf_entry> entries_;  // by key
  std::vector<gguf_tensor> tensors_;         // in the file's order
  std::vector<std::size_t> by_name_;
};

}  // namespace accrete::inline v0::io
