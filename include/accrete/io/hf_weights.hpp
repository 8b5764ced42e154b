#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "accrete/core/error.hpp"
#include "accrete/core/view.hpp"
#include "accrete/io/content_hash.hpp"
#include "accrete/io/detail/hf_config.hpp"
#include "accrete/io/detail/rows.hpp"
#include "accrete/io/json.hpp"
#include "accrete/io/mapped_file.hpp"
#include "accrete/io/message_text.hpp"
#include "accrete/io/safetensors.hpp"
#include "accrete/io/weight_source.hpp"

namespace accrete::inline v0::io {

/// A Llama, Qwen2 or Qwen3 model in the directory that `save_pretrained` writes: config.json and
/// model.safetensors, or model.safetensors.index.json with its shards; each tensor F32, F16 or BF16. Every
/// tensor must be there and no other; what the config asks for and the library does not compute is refused by
/// name. Files are mapped: a row is read where it lies when it is asked for.
class hf_weights final : public weight_source {
 public:
  explicit hf_weights(std::filesystem::path folder)
      : folder_(std::move(folder)), config_map_(folder_ / "config.json") {
    config = detail::read_hf_config(json::parse(config_map_.text(), path_text(config_map_.path())),
                                    "io::config " + path_text(config_map_.path()));
    std::error_code ignored;
    if (auto const path = folder_ / "generation_config.json"; std::filesystem::exists(path, ignored)) {
      mapped_file const map(path);
      std::string const here = "io::config " + path_text(path);
      detail::add_generation_config(config, json::parse(map.text(), here), here);
    }
    if (std::filesystem::exists(folder_ / "model.safetensors", ignored))
      open_single();
    else if (std::filesystem::exists(folder_ / "model.safetensors.index.json", ignored))
      open_shards();
    else
      throw io_error(where(), "neither model.safetensors nor model.safetensors.index.json", "one of them",
                     "pickled weights are not read; save the model again with safe_serialization");
    check_tensors();
  }

  [[nodiscard]] bool has(std::string_view hf_name) const override { return tensors_.count(hf_name) != 0; }
  [[nodiscard]] std::array<index_t, 2> shape(std::string_view hf_name) const override {
    return matrix_shape(find(hf_name));
  }
  void read_rows(std::string_view hf_name, index_t first_row, view<float, 2> out) const override {
    safetensors_tensor const& t = find(hf_name);
    auto const here = [&] { return where() + ": tensor " + name_text(t.name); };
    auto const [rows, columns] = matrix_shape(t);
    detail::require_rows(here, rows, columns, first_row, out);
    auto const kind = *plain(t.dtype);  // checked when it was opened
    index_t const stride = columns * detail::size_of(kind);
    for (index_t r = 0; r < out.rows(); ++r)
      detail::widen(kind, t.bytes.data() + (first_row + r) * stride, out.row(r), columns);
    detail::require_finite(here, first_row, out);
  }
  [[nodiscard]] std::string identity() const override {
    content_hash hash;
    add_file(hash, config_map_);
    for (safetensors_file const& shard : shards_) add_file(hash, shard.map());
    return hash.hex();
  }

 private:
  [[nodiscard]] std::string where() const { return "io::hf_weights " + path_text(folder_); }

  void open_single() {
    shards_.emplace_back(folder_ / "model.safetensors");
    for (safetensors_tensor const& t : shards_.front().tensors()) tensors_.emplace(t.name, &t);
  }

  void open_shards() {
    mapped_file const map(folder_ / "model.safetensors.index.json");
    std::string const here = "io::index " + path_text(map.path());
    json const index = json::parse(map.text(), here);
    json const* const names = index.find("weight_map");
    if (names == nullptr || !names->is_object() || names->items().empty())
      throw io_error(here, "no weight_map", "an object from tensor names to file names");
    std::map<std::string, std::size_t, std::less<>> files;
    for (json const& each : names->items()) {
      auto const& file = each.as_string(here + ": " + name_text(each.key()));
      if (file.empty() || file.size() > 255 || file.find_first_of("/\\") != std::string::npos ||
          file.find("..") != std::string::npos || file.find('\0') != std::string::npos)
        throw io_error(here, "a file name " + name_text(file), "one in the same directory");
      files.emplace(file, 0);
    }
    shards_.reserve(files.size());  // tensors_ points into them
    for (auto& [file, position] : files) {
      position = shards_.size();
      shards_.emplace_back(folder_ / file);
    }
    for (json const& each : names->items())
      tensors_.emplace(each.key(), &shards_[files.find(each.as_string(here))->second].tensor(each.key()));
    for (safetensors_file const& shard : shards_)
      for (safetensors_tensor const& t : shard.tensors()) {
        auto const at = tensors_.find(t.name);
        if (at == tensors_.end() || at->second != &t)
          throw io_error(
              shard.where(), "a tensor " + name_text(t.name),
              at == tensors_.end() ? "only tensors that the index names" : "each tensor in one shard only");
      }
  }

  // A model saved without its head (embedding models are) names its tensors without "model.".
  void add_prefix() {
    if (tensors_.count("model.embed_tokens.weight") != 0 || tensors_.count("embed_tokens.weight") == 0) return;
    decltype(tensors_) prefixed;
    for (auto const& [name, t] : tensors_)
      prefixed.emplace(name == "lm_head.weight" ? name : "model." + name, t);
    tensors_ = std::move(prefixed);
  }

  void check_tensors() {
    add_prefix();
    std::map<std::string, safetensors_tensor const*, std::less<>> known;
    detail::for_each_tensor(config, [&](std::string const& name, std::array<index_t, 2> const& want) {
      auto const at = tensors_.find(name);
      if (at == tensors_.end())
        throw io_error(where(), "no tensor " + name_text(name),
                       name == "lm_head.weight" ? "it, since tie_word_embeddings is not true" : "it");
      check(*at->second, want);
      known.insert(*at);
    });
    for (auto const& [name, t] : tensors_) {
      if (known.count(name) != 0 || name.ends_with("rotary_emb.inv_freq"))
        continue;                      // old files keep a constant
      if (name == "lm_head.weight") {  // tied, and written all the same
        auto const& embedding = *known.find("model.embed_tokens.weight")->second;
        if (t->dtype != embedding.dtype || t->bytes.size() != embedding.bytes.size() ||
            std::memcmp(t->bytes.data(), embedding.bytes.data(), t->bytes.size()) != 0)
          throw io_error(where(), "an lm_head.weight unlike the embedding",
                         "them equal, since tie_word_embeddings is true", "set it to false to use the head");
        continue;
      }
      throw io_error(where(), "a tensor " + name_text(name),
                     "only what a plain " + config.architecture + " model has",
                     "leaving it out would change the model");
    }
    tensors_ = std::move(known);
  }

  void check(safetensors_tensor const& t, std::array<index_t, 2> const& want) const {
    bool const vector = t.shape.size() == 1;
    if ((!vector && t.shape.size() != 2) || matrix_shape(t) != want)
      throw io_error(
          where() + ": tensor " + name_text(t.name), "shape " + shape_text(t.shape),
          (want[0] == 1 ? "[" + std::to_string(want[1]) + "]" : shape_text(want)) + " from config.json");
    if (!plain(t.dtype))
      throw io_error(where() + ": tensor " + name_text(t.name), "numbers in " + name_of(t.dtype),
                     "F32, F16 or BF16");
  }
  [[nodiscard]] static std::array<index_t, 2> matrix_shape(safetensors_tensor const& t) {
    return t.shape.size() == 2   ? std::array<index_t, 2>{t.shape[0], t.shape[1]}
           : t.shape.size() == 1 ? std::array<index_t, 2>{1, t.shape[0]}
                                 : std::array<index_t, 2>{0, 0};
  }
  [[nodiscard]] static std::optional<detail::plain_number> plain(safetensors_dtype dtype) {
    switch (dtype) {
      case safetensors_dtype::f32:
        return detail::plain_number::f32;
      case safetensors_dtype::f16:
        return detail::plain_number::f16;
      case safetensors_dtype::bf16:
        return detail::plain_number::bf16;
      default:
        return std::nullopt;
    }
  }
  [[nodiscard]] safetensors_tensor const& find(std::string_view hf_name) const {
    auto const at = tensors_.find(hf_name);
    if (at == tensors_.end())
      throw io_error(where(), "no weight " + name_text(hf_name),
                     "a weight of a " + config.architecture + " model of " +
                         std::to_string(config.num_hidden_layers) + " layers");
    return *at->second;
  }

  std::filesystem::path folder_;
  mapped_file config_map_;
  std::vector<safetensors_file> shards_;
  std::map<std::string, safetensors_tensor const*, std::less<>> tensors_;
};

}  // namespace accrete::inline v0::io
