#pragma once
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "accrete/core/config.hpp"
#include "accrete/core/error.hpp"
#include "accrete/core/view.hpp"
#include "accrete/data/corpus.hpp"
#include "accrete/data/open.hpp"
#include "accrete/data/open_shards.hpp"
#include "accrete/data/text_files.hpp"
#include "accrete/data/text_stream.hpp"
#include "accrete/data/tokenizer.hpp"
#include "accrete/io/message_text.hpp"

namespace accrete::inline v0::data {

ACCRETE_INLINE void encode_document(tokenizer const& words, document_text const& document,
                                    std::vector<std::int32_t>& ids) {
  if (words.add_bos()) ids.push_back(words.bos());
  try {
    words.encode(document.text, ids);
  } catch (config_error const& e) {
    throw io_error("data::open " + io::path_text(document.name) + ": " + e.what());
  }
  if (words.add_eos()) ids.push_back(words.eos());
}

ACCRETE_INLINE corpus open(std::span<std::filesystem::path const> paths, tokenizer const& words,
                           open_options const& options) {
  std::vector<std::filesystem::path> shards, text;
  for (auto const& path : paths) (is_shard_path(path) ? shards : text).push_back(path);
  if (!shards.empty()) {
    if (!text.empty())
      throw io_error(
          "data::open",
          "text in " + io::path_text(text.front()) + " and shards in " + io::path_text(shards.front()),
          "one of the two", "make shards of the text as well");
    return open_shards(shards, words, options.cut);
  }
  corpus all;
  std::vector<std::int32_t> ids;
  auto const num_empty = for_each_text(
      paths,
      [&](document_text const& document) {
        ids.clear();
        encode_document(words, document, ids);
        all.append(ids, options.cut);
      },
      options.format);
  all.num_empty = num_empty;
  if (all.num_documents() == 0)
    throw io_error("data::open",
                   "0 documents (" + std::to_string(num_empty) + " empty texts, " +
                       std::to_string(all.dropped) + " of fewer than 2 tokens)",
                   "at least 1", "give text");
  return all;
}

ACCRETE_INLINE corpus open(std::filesystem::path const& path, tokenizer const& words,
                           open_options const& options) {
  return open(std::span(&path, 1), words, options);
}

ACCRETE_INLINE corpus open_ids(std::filesystem::path const& path, index_t vocabulary,
                               open_options const& options) {
  std::string const where = "data::open_ids " + io::path_text(path);
  std::error_code failed;
  if (!std::filesystem::is_regular_file(path, failed))
    throw io_error(where, failed ? "'" + failed.message() + "'" : "no plain file", "a file of token ids");
  raw_text raw;
  std::string text;
  text_stream whole({path}, {});
  if (whole.next(raw)) text = text_of(std::move(raw), {});
  corpus all;
  std::vector<std::int32_t> ids;
  std::size_t line = 1;
  auto const end_line = [&] {
    if (ids.empty())
      ++all.num_empty;
    else
      all.append(ids, options.cut);
    ids.clear();
    ++line;
  };
  char const* const end = text.data() + text.size();
  for (char const* at = text.data(); at != end;) {
    if (*at == '\n') end_line();
    if (*at == ' ' || *at == '\t' || *at == '\r' || *at == '\n') {
      ++at;
      continue;
    }
    std::int32_t id = -1;
    auto const [stop, fault] = std::from_chars(at, end, id);
    bool const ends = stop == end || *stop == ' ' || *stop == '\t' || *stop == '\r' || *stop == '\n';
    if (fault != std::errc{} || !ends || id < 0 || id >= vocabulary) {
      std::string_view const rest(at, std::size_t(end - at));
      auto const word = rest.substr(0, rest.find_first_of(" \t\r\n"));
      throw io_error(where + ":" + std::to_string(line),
                     io::name_text(word) + " as token " + std::to_string(ids.size()),
                     "0 <= id < " + std::to_string(vocabulary), "one document a line, ids between spaces");
    }
    ids.push_back(id);
    at = stop;
  }
  if (!ids.empty()) end_line();
  if (all.num_documents() == 0) throw io_error(where, "0 documents of 2 tokens or more", "at least 1");
  return all;
}

}  // namespace accrete::inline v0::data
