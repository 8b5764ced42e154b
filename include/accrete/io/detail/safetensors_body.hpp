#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "accrete/core/config.hpp"
#include "accrete/core/error.hpp"
#include "accrete/core/view.hpp"
#include "accrete/io/bytes.hpp"
#include "accrete/io/json.hpp"
#include "accrete/io/message_text.hpp"
#include "accrete/io/safetensors.hpp"
#include "accrete/io/safetensors_dtype.hpp"

namespace accrete::inline v0::io {

ACCRETE_INLINE void safetensors_file::parse() {
  auto const bytes = map_.bytes();
  if (bytes.size() < 8)
    throw io_error(where(), bytes_text(bytes.size()), "at least 8", "the file is cut short");
  auto const length = load<std::uint64_t>(bytes.data());
  if (length > 100'000'000)
    throw io_error(where(), "a header of " + bytes_text(length), "at most 100000000",
                   "is it a safetensors file?");
  if (length > bytes.size() - 8)
    throw io_error(where(), "a header of " + bytes_text(length) + " in a file of " + bytes_text(bytes.size()),
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

ACCRETE_INLINE void safetensors_file::read_metadata(json const& item) {
  std::string const here = where() + ": __metadata__";
  if (!item.is_object()) throw io_error(here, item.describe(), "an object of strings");
  for (json const& each : item.items())
    metadata_.emplace(each.key(), each.as_string(here + "." + name_text(each.key())));
}

ACCRETE_INLINE std::pair<std::uint64_t, std::uint64_t> safetensors_file::read_tensor(
    json const& item, std::span<std::byte const> data) {
  std::string const here = where() + ": tensor " + name_text(item.key());
  if (!item.is_object()) throw io_error(here, item.describe(), "an object with dtype, shape and data_offsets");
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
    throw io_error(here + ": dtype", name_text(dtype), "a dtype of the format, such as 'F32' or 'BF16'");
  t.dtype = safetensors_dtype(at - safetensors_layouts.begin());

  t.shape = sizes(member("shape"), here + ": shape");
  auto const offsets = sizes(member("data_offsets"), here + ": data_offsets");
  if (offsets.size() != 2)
    throw io_error(here + ": data_offsets", std::to_string(offsets.size()) + " numbers", "2");
  auto const begin = std::uint64_t(offsets[0]);
  auto const end = std::uint64_t(offsets[1]);
  if (end < begin || end > data.size())
    throw io_error(here + ": data_offsets", shape_text(offsets),
                   "a range within the " + bytes_text(data.size()) + " after the header",
                   "the file may be cut short");
  auto const size = detail::tensor_bytes(t.dtype, t.shape);
  if (!size) throw io_error(here, dtype + shape_text(t.shape), "a shape of whole bytes, fewer than 2^63 bits");
  if (*size != end - begin)
    throw io_error(here, bytes_text(end - begin),
                   std::to_string(*size) + " for " + dtype + shape_text(t.shape));
  t.bytes = data.subspan(std::size_t(begin), std::size_t(*size));
  tensors_.push_back(std::move(t));
  return {begin, end};
}

ACCRETE_INLINE std::vector<index_t> safetensors_file::sizes(json const& value, std::string const& here) {
  if (!value.is_array()) throw io_error(here, value.describe(), "an array of whole numbers");
  std::vector<index_t> out;
  out.reserve(value.items().size());
  for (json const& each : value.items()) out.push_back(each.as_index(here));
  return out;
}

ACCRETE_INLINE void safetensors_file::require_cover(std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges,
                                                    std::uint64_t all) const {
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
    throw io_error(where(), bytes_text(all) + " after the header",
                   "the " + std::to_string(covered) + " that its tensors take");
}

}  // namespace accrete::inline v0::io
