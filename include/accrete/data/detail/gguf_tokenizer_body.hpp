#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "accrete/core/config.hpp"
#include "accrete/core/error.hpp"
#include "accrete/data/gguf_tokenizer.hpp"
#include "accrete/data/tokenizer_spec.hpp"
#include "accrete/io/gguf.hpp"
#include "accrete/io/message_text.hpp"

namespace accrete::inline v0::data {

ACCRETE_INLINE tokenizer_spec tokenizer_spec_from_gguf(io::gguf_file const& file) {
  auto const model = file.get<std::string_view>("tokenizer.ggml.model");
  if (model != "gpt2")
    throw io_error("data::tokenizer " + io::path_text(file.path()),
                   "tokenizer.ggml.model " + io::name_text(model), "'gpt2', a byte-level BPE",
                   "other kinds of tokenizer are not supported");
  tokenizer_spec spec;
  spec.file = file.path();
  spec.source = io::path_text(file.path());
  auto const tokens = file.get<std::vector<std::string_view>>("tokenizer.ggml.tokens");
  spec.tokens.assign(tokens.begin(), tokens.end());
  auto const merges = file.get<std::vector<std::string_view>>("tokenizer.ggml.merges");
  spec.merges.assign(merges.begin(), merges.end());
  spec.kinds = file.get<std::vector<std::int32_t>>("tokenizer.ggml.token_type", {});
  spec.split = file.get<std::string_view>("tokenizer.ggml.pre");
  spec.bos = file.get<std::int32_t>("tokenizer.ggml.bos_token_id", -1);
  spec.eos = file.get<std::int32_t>("tokenizer.ggml.eos_token_id", -1);
  spec.unknown = file.get<std::int32_t>("tokenizer.ggml.unknown_token_id", -1);
  spec.add_bos = file.get<bool>("tokenizer.ggml.add_bos_token", false);
  spec.add_eos = file.get<bool>("tokenizer.ggml.add_eos_token", false);
  if (spec.split == "qwen2") spec.normalization = normal_form::nfc;
  return spec;
}

}  // namespace accrete::inline v0::data
