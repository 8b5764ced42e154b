#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "accrete/core/error.hpp"
#include "accrete/core/view.hpp"
#include "accrete/io/atomic_file.hpp"
#include "accrete/io/json.hpp"
#include "accrete/io/message_text.hpp"
#include "accrete/io/safetensors_dtype.hpp"

namespace accrete::inline v0::io {

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
      : file_(path), where_("io::safetensors_writer " + path_text(path)) {}

  safetensors_writer& declare(std::string name, safetensors_dtype dtype, std::vector<index_t> shape) {
    auto const size = detail::tensor_bytes(dtype, shape);
    if (begun_)
      throw io_error(where_, "a tensor " + name_text(name) + " declared after bytes", "it before them");
    if (!size || name == "__metadata__" || !names_.insert(name).second)
      throw io_error(where_ + ": tensor " + name_text(name), name_of(dtype) + shape_text(shape),
                     "a new name, and a shape of whole bytes");
    tensors_.push_back({std::move(name), dtype, std::move(shape), *size});
    return *this;
  }
  safetensors_writer& metadata(std::string key, std::string value) {
    if (begun_) throw io_error(where_, "metadata " + name_text(key) + " after bytes", "it before them");
    metadata_.insert_or_assign(std::move(key), std::move(value));
    return *this;
  }

  /// The next bytes of the tensor at hand; `name` guards against writing them into another's place.
  safetensors_writer& append(std::string_view name, std::span<std::byte const> bytes) {
    begin();
    if (current_ == tensors_.size() || tensors_[current_].name != name || bytes.size() > left_)
      throw io_error(where_, bytes_text(bytes.size()) + " for " + name_text(name),
                     current_ == tensors_.size()
                         ? "no more bytes"
                         : "at most " + std::to_string(left_) + " for " + name_text(tensors_[current_].name));
    file_.write(bytes);
    left_ -= bytes.size();
    skip_full();
    return *this;
  }

  void commit() {
    begin();
    if (current_ != tensors_.size())
      throw io_error(where_,
                     name_text(tensors_[current_].name) + " with " + std::to_string(left_) + " bytes missing",
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
                "\",\"shape\":" + shape_text(t.shape) + ",\"data_offsets\":[" + std::to_string(at) + "," +
                std::to_string(at + t.size) + "]}";
      at += t.size;
    }
    header += "}";
    header.append((8 - header.size() % 8) % 8, ' ');
    std::uint64_t const length = header.size();
    if (length > 100'000'000) throw io_error(where_, "a header of " + bytes_text(length), "at most 100000000");
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
