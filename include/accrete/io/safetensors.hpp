#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "accrete/core/error.hpp"
#include "accrete/core/view.hpp"
#include "accrete/io/atomic_file.hpp"
#include "accrete/io/detail/bytes.hpp"
#include "accrete/io/json.hpp"
#include "accrete/io/mapped_file.hpp"

namespace accrete::inline v0::io {

/// Number formats of safetensors, in the order of the table below.
enum class safetensors_dtype : std::uint8_t {
  boolean,
  f4,
  f6_e2m3,
  f6_e3m2,
  u8,
  i8,
  f8_e5m2,
  f8_e4m3,
  f8_e8m0,
  f8_e4m3fnuz,
  f8_e5m2fnuz,
  i16,
  u16,
  f16,
  bf16,
  i32,
  u32,
  f32,
  c64,
  f64,
  i64,
  u64,
};
struct safetensors_layout {
  char const* name;
  std::uint64_t bits;
};
inline constexpr std::array<safetensors_layout, 22> safetensors_layouts{{
    {"BOOL", 8},    {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6},     {"U8", 8},          {"I8", 8},
    {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"I16", 16},
    {"U16", 16},    {"F16", 16},    {"BF16", 16},   {"I32", 32},        {"U32", 32},        {"F32", 32},
    {"C64", 64},    {"F64", 64},    {"I64", 64},    {"U64", 64},
}};
[[nodiscard]] constexpr safetensors_layout layout_of(safetensors_dtype dtype) {
  return safetensors_layouts[std::size_t(dtype)];
}
[[nodiscard]] inline std::string name_of(safetensors_dtype dtype) {
  return layout_of(dtype).name;
}

struct safetensors_tensor {
  std::string name;
  safetensors_dtype dtype{};
  std::vector<index_t> shape;        ///< row-major; {} is one number, and a size may be 0
  std::span<std::byte const> bytes;  ///< at any address: read through memcpy
};

namespace detail {

/// Bytes of a tensor; nothing where they overflow or do not fill whole bytes.
[[nodiscard]] inline std::optional<std::uint64_t> tensor_bytes(safetensors_dtype dtype,
                                                               std::vector<index_t> const& shape) {
  std::optional<std::uint64_t> bits = 1;
  for (index_t const n : shape) {
    if (n < 0) return std::nullopt;
    bits = multiply(*bits, std::uint64_t(n));
    if (!bits) return std::nullopt;
  }
  bits = multiply(*bits, layout_of(dtype).bits);
  if (!bits || *bits % 8 != 0) return std::nullopt;
  return *bits / 8;
}
[[nodiscard]] inline std::string shape_text(std::vector<index_t> const& shape) {
  std::string text = "[";
  for (std::size_t d = 0; d < shape.size(); ++d) text += (d == 0 ? "" : ", ") + std::to_string(shape[d]);
  return text + "]";
}

}  // namespace detail

/// A safetensors file, mapped. Opening it checks everything the format asks: header length, UTF-8, JSON,
/// dtypes, shapes, and that the tensors' bytes cover the rest of the file without hole, overlap or remainder.
/// Throws io_error in one line that names the file and the tensor.
class safetensors_file {
 public:
  explicit safetensors_file(std::filesystem::path path) : map_(std::move(path)) { parse(); }

  [[nodiscard]] std::vector<safetensors_tensor> const& tensors() const { return tensors_; }  ///< by name
  [[nodiscard]] std::map<std::string, std::string, std::less<>> const& metadata() const { return metadata_; }
  [[nodiscard]] safetensors_tensor const* find_tensor(std::string_view name) const {
    auto const at =
        std::lower_bound(tensors_.begin(), tensors_.end(), name,
                         [](safetensors_tensor const& t, std::string_view n) { return t.name < n; });
    return at != tensors_.end() && at->name == name ? &*at : nullptr;
  }
  [[nodiscard]] safetensors_tensor const& tensor(std::string_view name) const {
    safetensors_tensor const* const found = find_tensor(name);
    if (found == nullptr)
      throw io_error(where(), "no tensor " + detail::name_text(name),
                     "it among the file's " + std::to_string(tensors_.size()));
    return *found;
  }

  [[nodiscard]] std::filesystem::path const& path() const { return map_.path(); }
  [[nodiscard]] mapped_file const& map() const { return map_; }
  [[nodiscard]] std::string where() const { return "io::safetensors " + detail::path_text(map_.path()); }

 private:
  void parse() {
    auto const bytes = map_.bytes();
    if (bytes.size() < 8)
      throw io_error(where(), detail::bytes_text(bytes.size()), "at least 8", "the file is cut short");
    auto const length = detail::load<std::uint64_t>(bytes.data());
    if (length > 100'000'000)
      throw io_error(where(), "a header of " + detail::bytes_text(length), "at most 100000000",
                     "is it a safetensors file?");
    if (length > bytes.size() - 8)
      throw io_error(
          where(),
          "a header of " + detail::bytes_text(length) + " in a file of " + detail::bytes_text(bytes.size()),
          "a header inside the file", "the file is cut short");
    std::string_view const text(reinterpret_cast<char const*>(bytes.data()) + 8, std::size_t(length));
    json const header = json::parse(text, where());
    if (!header.is_object()) throw io_error(where(), header.describe(), "an object as header");
    auto const data = bytes.subspan(8 + std::size_t(length));

    std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges;
    for (json const& item : header.items()) {
      if (item.key() == "__metadata__")
        read_metadata(item);
      else
        ranges.push_back(read_tensor(item, data));
    }
    require_cover(ranges, data.size());
  }

  void read_metadata(json const& item) {
    std::string const here = where() + ": __metadata__";
    if (!item.is_object()) throw io_error(here, item.describe(), "an object of strings");
    for (json const& each : item.items())
      metadata_.emplace(each.key(), each.as_string(here + "." + detail::name_text(each.key())));
  }

  std::pair<std::uint64_t, std::uint64_t> read_tensor(json const& item, std::span<std::byte const> data) {
    std::string const here = where() + ": tensor " + detail::name_text(item.key());
    if (!item.is_object())
      throw io_error(here, item.describe(), "an object with dtype, shape and data_offsets");
    auto const member = [&](char const* name) -> json const& {
      json const* const found = item.find(name);
      if (found == nullptr) throw io_error(here, std::string("no ") + name, "dtype, shape and data_offsets");
      return *found;
    };
    safetensors_tensor t;
    t.name = item.key();
    auto const& dtype = member("dtype").as_string(here + ": dtype");
    auto const at = std::find_if(safetensors_layouts.begin(), safetensors_layouts.end(),
                                 [&](safetensors_layout const& each) { return dtype == each.name; });
    if (at == safetensors_layouts.end())
      throw io_error(here + ": dtype", detail::name_text(dtype),
                     "a dtype of the format, such as 'F32' or 'BF16'");
    t.dtype = safetensors_dtype(at - safetensors_layouts.begin());

    t.shape = sizes(member("shape"), here + ": shape");
    auto const offsets = sizes(member("data_offsets"), here + ": data_offsets");
    if (offsets.size() != 2)
      throw io_error(here + ": data_offsets", std::to_string(offsets.size()) + " numbers", "2");
    auto const begin = std::uint64_t(offsets[0]);
    auto const end = std::uint64_t(offsets[1]);
    if (end < begin || end > data.size())
      throw io_error(here + ": data_offsets", detail::shape_text(offsets),
                     "a range within the " + detail::bytes_text(data.size()) + " after the header",
                     "the file may be cut short");
    auto const size = detail::tensor_bytes(t.dtype, t.shape);
    if (!size)
      throw io_error(here, dtype + detail::shape_text(t.shape), "a shape of whole bytes, fewer than 2^63 bits");
    if (*size != end - begin)
      throw io_error(here, detail::bytes_text(end - begin),
                     std::to_string(*size) + " for " + dtype + detail::shape_text(t.shape));
    t.bytes = data.subspan(std::size_t(begin), std::size_t(*size));
    tensors_.push_back(std::move(t));
    return {begin, end};
  }

  [[nodiscard]] static std::vector<index_t> sizes(json const& value, std::string const& here) {
    if (!value.is_array()) throw io_error(here, value.describe(), "an array of whole numbers");
    std::vector<index_t> out;
    out.reserve(value.items().size());
    for (json const& each : value.items()) out.push_back(each.as_index(here));
    return out;
  }

  void require_cover(std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges, std::uint64_t all) const {
    std::sort(ranges.begin(), ranges.end());
    std::uint64_t covered = 0;
    for (auto const& [begin, end] : ranges) {
      if (begin != covered)
        throw io_error(
            where(),
            "a tensor at byte " + std::to_string(begin) + " after one that ends at " + std::to_string(covered),
            "neither hole nor overlap");
      covered = end;
    }
    if (covered != all)
      throw io_error(where(), detail::bytes_text(all) + " after the header",
                     "the " + std::to_string(covered) + " that its tensors take");
  }

  mapped_file map_;
  std::vector<safetensors_tensor> tensors_;
  std::map<std::string, std::string, std::less<>> metadata_;
};

/// Writes a safetensors file as a stream: declare every tensor, then append their bytes in the same order, in
/// pieces of any size, then commit(). No tensor is held in memory, and without commit() nothing appears.
/// Readers place no order on tensors; declare wide numbers before narrow ones to keep them aligned.
///
///     safetensors_writer out("run/teacher.safetensors");
///     out.declare("tokens", safetensors_dtype::i32, {n});
///     out.append("tokens", std::as_bytes(std::span(tokens)));
///     out.commit();
class safetensors_writer {
 public:
  explicit safetensors_writer(std::filesystem::path const& path)
      : file_(path), where_("io::safetensors_writer " + detail::path_text(path)) {}

  safetensors_writer& declare(std::string name, safetensors_dtype dtype, std::vector<index_t> shape) {
    auto const size = detail::tensor_bytes(dtype, shape);
    if (begun_)
      throw io_error(where_, "a tensor " + detail::name_text(name) + " declared after bytes", "it before them");
    if (!size || name == "__metadata__" || !names_.insert(name).second)
      throw io_error(where_ + ": tensor " + detail::name_text(name), name_of(dtype) + detail::shape_text(shape),
                     "a new name, and a shape of whole bytes");
    tensors_.push_back({std::move(name), dtype, std::move(shape), *size});
    return *this;
  }
  safetensors_writer& metadata(std::string key, std::string value) {
    if (begun_) throw io_error(where_, "metadata " + detail::name_text(key) + " after bytes", "it before them");
    metadata_.insert_or_assign(std::move(key), std::move(value));
    return *this;
  }

  /// The next bytes of the tensor at hand; `name` guards against writing them into another's place.
  safetensors_writer& append(std::string_view name, std::span<std::byte const> bytes) {
    begin();
    if (current_ == tensors_.size() || tensors_[current_].name != name || bytes.size() > left_)
      throw io_error(where_, detail::bytes_text(bytes.size()) + " for " + detail::name_text(name),
                     current_ == tensors_.size() ? "no more bytes"
                                                 : "at most " + std::to_string(left_) + " for " +
                                                       detail::name_text(tensors_[current_].name));
    file_.write(bytes);
    left_ -= bytes.size();
    skip_full();
    return *this;
  }

  void commit() {
    begin();
    if (current_ != tensors_.size())
      throw io_error(
          where_,
          detail::name_text(tensors_[current_].name) + " with " + std::to_string(left_) + " bytes missing",
          "every declared tensor whole");
    file_.commit();
  }

 private:
  struct declared {
    std::string name;
    safetensors_dtype dtype;
    std::vector<index_t> shape;
    std::uint64_t size;
  };

  void begin() {
    if (begun_) return;
    begun_ = true;
    std::string header = "{";
    if (!metadata_.empty()) {
      header += "\"__metadata__\":{";
      for (auto const& [key, value] : metadata_)
        header += (header.back() == '{' ? "" : ",") + json_quote(key, where_) + ":" + json_quote(value, where_);
      header += "}";
    }
    std::uint64_t at = 0;
    for (declared const& t : tensors_) {
      if (header.size() > 1) header += ",";
      header += json_quote(t.name, where_) + ":{\"dtype\":\"" + name_of(t.dtype) +
                "\",\"shape\":" + detail::shape_text(t.shape) + ",\"data_offsets\":[" + std::to_string(at) +
                "," + std::to_string(at + t.size) + "]}";
      at += t.size;
    }
    header += "}";
    header.append((8 - header.size() % 8) % 8, ' ');
    std::uint64_t const length = header.size();
    if (length > 100'000'000)
      throw io_error(where_, "a header of " + detail::bytes_text(length), "at most 100000000");
    file_.write(std::as_bytes(std::span(&length, 1)));
    file_.write(header);
    skip_full();
  }
  void skip_full() {  // on to the next tensor that takes bytes
    if (started_ && left_ != 0) return;
    if (started_) ++current_;
    started_ = true;
    while (current_ < tensors_.size() && tensors_[current_].size == 0) ++current_;
    left_ = current_ < tensors_.size() ? tensors_[current_].size : 0;
  }

  atomic_file file_;
  std::string where_;
  std::vector<declared> tensors_;
  std::set<std::string> names_;
  std::map<std::string, std::string> metadata_;
  std::size_t current_ = 0;
  std::uint64_t left_ = 0;
  bool begun_ = false;
  bool started_ = false;
};

}  // namespace accrete::inline v0::io
