#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "accrete/core/error.hpp"
#include "accrete/core/view.hpp"
#include "accrete/io/mapped_file.hpp"
#include "accrete/io/message_text.hpp"
#include "accrete/io/safetensors_dtype.hpp"

namespace accrete::inline v0::io {

class json;

struct safetensors_tensor {
  std::string name;
  safetensors_dtype dtype{};
  std::vector<index_t> shape;        ///< row-major; {} is one number, and a size may be 0
  std::span<std::byte const> bytes;  ///< at any address: read through memcpy
};

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
      throw io_error(where(), "no tensor " + name_text(name),
                     "it among the file's " + std::to_string(tensors_.size()));
    return *found;
  }

  [[nodiscard]] std::filesystem::path const& path() const { return map_.path(); }
  [[nodiscard]] mapped_file const& map() const { return map_; }
  [[nodiscard]] std::string where() const { return "io::safetensors " + path_text(map_.path()); }

 private:
  void parse();

  void read_metadata(json const& item);

  std::pair<std::uint64_t, std::uint64_t> read_tensor(json const& item, std::span<std::byte const> data);

  [[nodiscard]] static std::vector<index_t> sizes(json const& value, std::string const& here);

  void require_cover(std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges, std::uint64_t all) const;

  mapped_file map_;
  std::vector<safetensors_tensor> tensors_;
  std::map<std::string, std::string, std::less<>> metadata_;
};

}  // namespace accrete::inline v0::io

#if !defined(ACCRETE_COMPILED)
#include "accrete/io/detail/safetensors_body.hpp"
#endif
