#pragma once
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "accrete/core/config.hpp"
#include "accrete/core/error.hpp"
#include "accrete/data/detail/hf_added_tokens.hpp"
#include "accrete/data/detail/hf_model.hpp"
#include "accrete/data/detail/hf_pre_tokenizer.hpp"
#include "accrete/data/detail/hf_text_ends.hpp"
#include "accrete/data/detail/tokenizer_json.hpp"
#include "accrete/data/hf_tokenizer.hpp"
#include "accrete/data/tokenizer_spec.hpp"
#include "accrete/io/json.hpp"
#include "accrete/io/message_text.hpp"
#include "accrete/io/placed_json.hpp"

namespace accrete::inline v0::data {

namespace detail {

/// Checks the `decoder` of a tokenizer.json. There is nothing to read: bytes are bytes.
inline void check_hf_decoder(io::placed_json const& d) {
  if (d.is_null()) return;
  auto const kind = kind_of(d);
  if (kind == "Sequence") {
    require_only(d, {"type", "decoders"});
    for (auto const& each : d.at("decoders").as_list()) check_hf_decoder(each);
    return;
  }
  if (kind != "ByteLevel") refuse(d, "'ByteLevel'");
  require_only(d, {"type", "add_prefix_space", "trim_offsets", "use_regex"});
}

/// Reads tokenizer.json: the byte-level BPE in it. Whatever it says that is not understood is refused by name.
[[nodiscard]] inline tokenizer_spec read_tokenizer_json(io::json const& file, std::string source) {
  tokenizer_spec spec;
  spec.source = std::move(source);
  io::placed_json const root{file, spec.where() + ": tokenizer"};
  if (!file.is_object()) throw io_error(root.where, file.describe(), "an object");
  require_only(root, {"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer",
                      "post_processor", "decoder", "model"});
  auto const model = root.at("model");
  read_hf_model(model, spec);
  spec.steps.emplace();
  read_hf_normalizer(root.at("normalizer"), spec);
  auto const pre_tokenizer = root.at("pre_tokenizer");
  if (!read_hf_pre_tokenizer(pre_tokenizer, spec))
    throw io_error(pre_tokenizer.where, "no ByteLevel", "one: a byte-level BPE",
                   "other kinds of tokenizer are not supported");
  check_hf_decoder(root.at("decoder"));
  if (auto const added = root.at("added_tokens"); !added.is_null())
    read_hf_added_tokens(added.as_list(), model.at("vocab").value, spec);
  read_hf_post_processor(root.at("post_processor"), spec);
  return spec;
}

}  // namespace detail

ACCRETE_INLINE tokenizer_spec tokenizer_spec_from_hf(std::filesystem::path path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) path /= "tokenizer.json";
  auto spec = detail::read_tokenizer_json(detail::read_json(path), io::path_text(path));
  spec.file = path;
  detail::read_hf_text_ends(path.parent_path(), spec);
  return spec;
}

}  // namespace accrete::inline v0::data
