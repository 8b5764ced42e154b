#pragma once
#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "accrete/core/error.hpp"
#include "accrete/core/view.hpp"
#include "accrete/data/corpus.hpp"
#include "accrete/data/cutting.hpp"
#include "accrete/data/token_shard.hpp"
#include "accrete/data/tokenizer.hpp"
#include "accrete/io/json.hpp"
#include "accrete/io/message_text.hpp"

namespace accrete::inline v0::data {

/// The name of a folder's shard: tokens-00042.safetensors.
[[nodiscard]] inline std::string shard_name(index_t number) {
  auto digits = std::to_string(number);
  if (digits.size() < 5) digits.insert(0, 5 - digits.size(), '0');
  return "tokens-" + digits + ".safetensors";
}

/// The shards that are in a folder from number 0 on without a gap.
[[nodiscard]] inline std::vector<std::filesystem::path> shards_in(std::filesystem::path const& folder) {
  std::vector<std::filesystem::path> files;
  std::error_code ignored;
  for (;;) {
    auto file = folder / shard_name(index_t(files.size()));
    if (!std::filesystem::is_regular_file(file, ignored)) return files;
    files.push_back(std::move(file));
  }
}

/// Whether a path holds token shards, not text.
[[nodiscard]] inline bool is_shard_path(std::filesystem::path const& path) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) return path.extension() == ".safetensors";
  for (std::filesystem::directory_iterator at(path, ignored), end; !ignored && at != end;
       at.increment(ignored)) {
    auto const name = at->path().filename().native();
    if (name.starts_with("tokens-") && name.ends_with(".safetensors")) return true;
  }
  return false;
}

/// Maps the shards of files and whole folders, in the order given. Throws `io_error` when a folder is not
/// finished, or a shard is of another tokenizer or cut otherwise.
[[nodiscard]] inline corpus open_shards(std::span<std::filesystem::path const> paths, tokenizer const& words,
                                        cutting const& cut) {
  corpus all;
  auto const add = [&](std::filesystem::path const& file) {
    auto const shard = std::make_shared<token_shard const>(file);
    auto const& facts = shard->facts();
    if (facts.tokenizer != words.identity_text() || facts.vocabulary != words.vocab_size())
      throw io_error(shard->where(),
                     "tokens of another tokenizer (" + std::to_string(facts.vocabulary) + " tokens, identity " +
                         io::name_text(facts.tokenizer) + ")",
                     "those of the teacher's (" + std::to_string(words.vocab_size()) + " tokens, identity '" +
                         words.identity_text() + "')",
                     "make shards for this teacher with prepare");
    if (facts.cut != cut.name() || facts.max_length != cut.max_length)
      throw io_error(shard->where(),
                     "documents cut as '" + facts.cut + "' at " + std::to_string(facts.max_length) + " tokens",
                     "'" + std::string(cut.name()) + "' at " + std::to_string(cut.max_length),
                     "ask for the shards' own cut and length, or make others with prepare");
    all.append(shard, 0, shard->num_documents());
    auto const count = [&](char const* key) {
      auto const at = facts.more.find(key);
      if (at == facts.more.end()) return index_t(0);
      std::string const where = shard->where() + ": " + key;
      index_t const n = io::json::parse(at->second, where).as_index(where);
      if (n > index_t(1) << 50)  // sums of them stay far from overflow
        throw io_error(where, std::to_string(n), "0 to 2^50", "the file may be damaged");
      return n;
    };
    all.num_origins += count("num_texts");
    all.dropped += count("dropped");
    all.num_empty += count("empty");
    return facts.more.count("final") == 0 || facts.more.find("final")->second == "true";
  };
  for (auto const& path : paths) {
    std::error_code ignored;
    if (!std::filesystem::is_directory(path, ignored)) {
      (void)add(path);
      continue;
    }
    bool final = false;
    auto const files = shards_in(path);
    for (auto const& file : files) final = add(file);
    if (!final)
      throw io_error("data::open " + io::path_text(path),
                     std::to_string(files.size()) + " shards and no last one", "all of them",
                     "the same prepare command goes on where it stopped");
  }
  if (all.num_documents() == 0)
    throw io_error("data::open", "shards of 0 documents", "at least 1", "give text");
  return all;
}

}  // namespace accrete::inline v0::data
