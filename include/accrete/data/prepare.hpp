#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "accrete/core/error.hpp"
#include "accrete/core/view.hpp"
#include "accrete/data/cutting.hpp"
#include "accrete/data/detail/shard_folder.hpp"
#include "accrete/data/detail/tokenizing_threads.hpp"
#include "accrete/data/text_files.hpp"
#include "accrete/data/text_stream.hpp"
#include "accrete/data/token_shard.hpp"
#include "accrete/data/tokenizer.hpp"
#include "accrete/io/content_hash.hpp"
#include "accrete/io/folder_lock.hpp"

namespace accrete::inline v0::data {

/// How text is cut and packed into shards.
struct prepare_options {
  cutting cut{cutting::windows, 2048};
  text_format format{};
  /// A shard is closed before the text that would come after so many tokens. It is in memory, four bytes a
  /// token, until it is written.
  index_t shard_tokens = index_t(1) << 25;
  int threads = 1;

  void check() const {
    if (cut.max_length < 2)
      throw config_error("data::prepare", "length " + std::to_string(cut.max_length), "2 or more");
    if (shard_tokens < 1 || threads < 1)
      throw config_error(
          "data::prepare",
          std::to_string(shard_tokens) + " tokens a shard, " + std::to_string(threads) + " threads",
          "1 or more of both");
  }
};

namespace detail {

/// Bytes of each file as it lies on disk; 0 where that is not known.
[[nodiscard]] inline std::vector<std::uint64_t> sizes_of(std::vector<std::filesystem::path> const& files) {
  std::vector<std::uint64_t> sizes;
  for (auto const& file : files) {
    std::error_code unknown;
    auto const size = std::filesystem::file_size(file, unknown);
    sizes.push_back(unknown ? 0 : std::uint64_t(size));
  }
  return sizes;
}

/// What every shard of a call says: the call that goes on with its folder says the same.
[[nodiscard]] inline shard_facts facts_of(std::vector<std::filesystem::path> const& files,
                                          std::vector<std::uint64_t> const& sizes, tokenizer const& words,
                                          prepare_options const& options) {
  io::content_hash sources;
  for (std::size_t f = 0; f < files.size(); ++f)
    sources.update(files[f].generic_string()).update(std::string_view("\n")).update(sizes[f]);
  shard_facts facts{.tokenizer = words.identity_text(),
                    .vocabulary = words.vocab_size(),
                    .cut = options.cut.name(),
                    .max_length = options.cut.max_length};
  facts.more = {{"field", options.format.field},
                {"shard_tokens", std::to_string(options.shard_tokens)},
                {"source", sources.hex()},
                {"source_files", std::to_string(files.size())},
                {"source_first", files.front().filename().string()}};
  return facts;
}

/// Work for one thread; returns whether there may be more. What is wrong with a text comes behind the texts
/// before it.
[[nodiscard]] inline bool read_block(text_stream& texts, text_block& block) {
  constexpr std::size_t most_bytes = std::size_t(1) << 19, most_texts = 4096;
  try {
    for (std::size_t bytes = 0; bytes < most_bytes && block.texts.size() < most_texts;) {
      raw_text raw;
      if (!texts.next(raw)) return false;
      bytes += raw.bytes.size();
      block.texts.push_back(std::move(raw));
    }
  } catch (...) {
    block.fault = std::current_exception();
    return false;
  }
  return true;
}

}  // namespace detail

/// Makes token shards of all text below `paths` in `folder`: tokens-00000.safetensors and on. The shards depend
/// on the text and the options but not on the number of threads. Memory is that of one shard and a few MiB a
/// thread. A call that was stopped or killed is taken up by the same call: shards that are there stay, and the
/// bytes are those of a call that went through. `report(prepare_progress const&)` is called often and returns
/// whether to go on. Throws `io_error` on text that cannot be used, a folder with shards of other options, or a
/// disk that is full; shards that were written stay.
inline prepare_progress prepare(std::span<std::filesystem::path const> paths, tokenizer const& words,
                                std::filesystem::path const& folder, prepare_options const& options,
                                std::function<bool(prepare_progress const&)> const& report = {}) {
  options.check();
  io::folder_lock const lock(folder);
  auto const files = find_text_files(paths);
  auto const sizes = detail::sizes_of(files);
  auto const bytes_before = [&](std::uint64_t file) {
    auto const count = std::ptrdiff_t((std::min)(file, std::uint64_t(sizes.size())));
    return std::accumulate(sizes.begin(), sizes.begin() + count, std::uint64_t(0));
  };
  detail::shard_folder out(folder, detail::facts_of(files, sizes, words, options), options.shard_tokens,
                           options.cut);
  out.progress.all_bytes = bytes_before(sizes.size());
  if (out.progress.finished) {
    out.progress.bytes = out.progress.all_bytes;
    return out.progress;
  }

  auto const before = bytes_before(out.next.file);  // of files that were done earlier
  text_stream texts(files, options.format, out.next);
  detail::tokenizing_threads threads(words, options.format, options.threads);
  bool more = true;
  auto const go_on = [&] { return !report || report(out.progress); };
  while (more || threads.size() > 0) {
    while (more && threads.size() < std::size_t(2 * options.threads + 1)) {
      auto block = std::make_unique<detail::text_block>();
      more = detail::read_block(texts, *block);
      block->consumed = before + texts.consumed();
      threads.put(std::move(block));
    }
    auto const block = threads.take();
    std::size_t begin = 0;
    for (auto const& item : block->items) {
      out.add(item.begin, std::span(block->tokens).subspan(begin, item.end - begin), item.empty);
      begin = item.end;
    }
    if (block->fault) std::rethrow_exception(block->fault);
    out.progress.bytes = block->consumed;
    if (!go_on()) return out.progress;
  }
  out.finish(texts.position());
  (void)go_on();
  return out.progress;
}

}  // namespace accrete::inline v0::data
