#pragma once
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "accrete/core/view.hpp"
#include "accrete/data/corpus.hpp"
#include "accrete/data/cutting.hpp"
#include "accrete/data/text_format.hpp"
#include "accrete/data/tokenizer.hpp"

namespace accrete::inline v0::data {

struct document_text;

struct open_options {
  cutting cut{};
  text_format format{};
};

/// Appends the tokens of one text as a document has them: between `bos` and `eos` where the tokenizer says so.
/// Throws `io_error` that names the text.
void encode_document(tokenizer const& words, document_text const& document,
                     std::vector<std::int32_t>& ids);

/// Text below some files and folders, or token shards of it. Text is read and tokenized, each text by itself,
/// and cut; shards (files that end in .safetensors, or folders that `prepare` has filled) are mapped, which
/// takes no time, and must have been made with this tokenizer and this cut. Throws `io_error` when a file
/// cannot be used or nothing is left.
corpus open(std::span<std::filesystem::path const> paths, tokenizer const& words,
            open_options const& options = {});
corpus open(std::filesystem::path const& path, tokenizer const& words,
            open_options const& options = {});

/// Reads token ids instead of text: decimal numbers between white space, one document a line. Throws `io_error`
/// naming the line when a word is no id below `vocabulary`.
corpus open_ids(std::filesystem::path const& path, index_t vocabulary,
                open_options const& options = {});

}  // namespace accrete::inline v0::data

#if !defined(ACCRETE_COMPILED)
#include "accrete/data/detail/open_body.hpp"
#endif
