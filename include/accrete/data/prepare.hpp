#pragma once
#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "accrete/core/error.hpp"
#include "accrete/core/view.hpp"
#include "accrete/data/corpus.hpp"
#include "accrete/data/cutting.hpp"
#include "accrete/data/open.hpp"
#include "accrete/data/open_shards.hpp"
#include "accrete/data/text_files.hpp"
#include "accrete/data/text_stream.hpp"
#include "accrete/data/token_shard.hpp"
#include "accrete/data/tokenizer.hpp"
#include "accrete/io/content_hash.hpp"
#include "accrete/io/folder_lock.hpp"
#include "accrete/io/json.hpp"
#include "accrete/io/leftovers.hpp"
#include "accrete/io/message_text.hpp"

namespace accrete::inline v0::data {

struct prepare_options {
  cutting cut{cutting::windows, 2048};
  text_format format{};
  /// A shard is closed before the text that would come after so many tokens. It is in memory, four bytes a
  /// token, until it is written.
  index_t shard_tokens = index_t(1) << 25;
  int threads = 1;
};

/// How far `prepare` is, what earlier calls did included.
struct prepare_progress {
  std::uint64_t bytes = 0, all_bytes = 0;  ///< of the files, as they lie on disk
  index_t texts = 0;                       ///< read, those without a character not counted
  index_t empty = 0;
  index_t dropped = 0;  ///< texts and rests of fewer than two tokens
  index_t documents = 0;
  index_t tokens = 0;
  index_t shards = 0;   ///< written
  index_t resumed = 0;  ///< of these, found when it began
  bool finished = false;
};

namespace detail {

/// Texts that one thread tokenizes at a time.
struct text_block {
  struct item {
    text_position begin;
    std::size_t end;  // of its tokens; where the one before ends it has none
    bool empty;
  };
  std::vector<raw_text> texts;
  std::vector<item> items;
  std::vector<std::int32_t> tokens;
  std::exception_ptr fault;  // of the text behind the last item
  std::uint64_t consumed = 0;
  bool done = false;
};

/// Threads that tokenize blocks in any order. What goes in comes out in the order it went in.
class tokenizing_threads {
 public:
  tokenizing_threads(tokenizer words, text_format format, int threads)
      : words_(std::move(words)), format_(std::move(format)) {
    try {
      for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
    } catch (...) {
      stop();
      throw;
    }
  }
  tokenizing_threads(tokenizing_threads const&) = delete;
  tokenizing_threads& operator=(tokenizing_threads const&) = delete;
  ~tokenizing_threads() { stop(); }

  void put(std::unique_ptr<text_block> block) {
    {
      std::scoped_lock const guard(lock_);
      waiting_.push_back(block.get());
      all_.push_back(std::move(block));
    }
    changed_.notify_all();
  }
  [[nodiscard]] std::size_t size() const { return all_.size(); }  // touched by the owner alone
  /// Waits for the oldest one.
  [[nodiscard]] std::unique_ptr<text_block> take() {
    std::unique_lock guard(lock_);
    changed_.wait(guard, [&] { return all_.front()->done; });
    auto block = std::move(all_.front());
    all_.pop_front();
    return block;
  }

 private:
  void work() {
    for (;;) {
      text_block* block = nullptr;
      {
        std::unique_lock guard(lock_);
        changed_.wait(guard, [&] { return stopping_ || !waiting_.empty(); });
        if (stopping_) return;
        block = waiting_.front();
        waiting_.pop_front();
      }
      tokenize(*block);
      {
        std::scoped_lock const guard(lock_);
        block->done = true;
      }
      changed_.notify_all();
    }
  }
  void tokenize(text_block& block) const {
    auto const earlier = std::exchange(block.fault, nullptr);  // the reader's, behind all texts
    try {
      for (raw_text& raw : block.texts) {
        auto const begin = raw.begin;
        auto name = raw.name();
        document_text const text{std::move(name), text_of(std::move(raw), format_)};
        bool const empty = blank(text.text);
        if (!empty) encode_document(words_, text, block.tokens);
        block.items.push_back({begin, block.tokens.size(), empty});
      }
      block.fault = earlier;
    } catch (...) {
      block.fault = std::current_exception();
    }
    block.texts.clear();
  }
  void stop() {
    {
      std::scoped_lock const guard(lock_);
      stopping_ = true;
    }
    changed_.notify_all();
    for (auto& t : threads_) t.join();
    threads_.clear();
  }

  tokenizer words_;
  text_format format_;
  std::mutex lock_;
  std::condition_variable changed_;
  std::deque<std::unique_ptr<text_block>> all_;
  std::deque<text_block*> waiting_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

/// The shards of one folder: which are there, and the one that is being filled.
class shard_folder {
 public:
  shard_folder(std::filesystem::path folder, shard_facts facts, index_t shard_tokens, cutting cut)
      : folder_(std::move(folder)), facts_(std::move(facts)), shard_tokens_(shard_tokens), cut_(cut) {
    auto const files = shards_in(folder_);
    for (auto const& file : files) take_over(token_shard(file));
    if (files.empty() && is_shard_path(folder_))
      throw io_error("data::prepare " + io::path_text(folder_), "shards without " + shard_name(0),
                     "all of them or none", "give an empty folder");
    progress.resumed = progress.shards;
    // At once, since a vector that grows is there twice; memory is taken when it is written to.
    filling_.tokens.reserve(std::size_t((std::min)(shard_tokens_, index_t(1) << 26)));
    io::remove_leftovers(folder_);  // of a killed call; the caller holds the folder's lock
  }

  /// One text, `ids` its tokens. A full shard is written before it.
  void add(text_position begin, std::span<std::int32_t const> ids, bool empty) {
    if (filling_.num_tokens() >= shard_tokens_) write(begin, false);
    if (empty) {
      ++filling_.num_empty;
      ++progress.empty;
      return;
    }
    auto const documents = filling_.num_documents(), tokens = filling_.num_tokens(), dropped = filling_.dropped;
    filling_.append(ids, cut_);
    ++progress.texts;
    progress.documents += filling_.num_documents() - documents;
    progress.tokens += filling_.num_tokens() - tokens;
    progress.dropped += filling_.dropped - dropped;
  }
  void finish(text_position end) {
    if (progress.documents == 0)
      throw io_error("data::prepare",
                     "0 documents (" + std::to_string(progress.empty) + " empty texts, " +
                         std::to_string(progress.dropped) + " of fewer than 2 tokens)",
                     "at least 1", "give text");
    write(end, true);
    progress.finished = true;
  }

  prepare_progress progress;
  text_position next;  ///< where the text begins that is in no shard yet

 private:
  static std::string text_of_position(text_position p) {
    return std::to_string(p.file) + ":" + std::to_string(p.byte) + ":" + std::to_string(p.line);
  }

  void take_over(token_shard const& shard) {
    auto const& there = shard.facts();
    auto const refuse = [&](std::string const& what, std::string const& got, std::string const& want) {
      if (got != want)
        throw io_error(shard.where(), what + " " + io::name_text(got), io::name_text(want),
                       "a folder holds shards of one command: repeat it as it was, or give another folder");
    };
    refuse("tokenizer", there.tokenizer, facts_.tokenizer);
    refuse("vocabulary", std::to_string(there.vocabulary), std::to_string(facts_.vocabulary));
    refuse("cut", there.cut, facts_.cut);
    refuse("length", std::to_string(there.max_length), std::to_string(facts_.max_length));
    auto const noted = [&](char const* key) {
      auto const at = there.more.find(key);
      if (at == there.more.end())
        throw io_error(shard.where(), std::string("no '") + key + "' in its metadata",
                       "a shard made by prepare");
      return at->second;
    };
    if (noted("source") != facts_.more.find("source")->second)
      throw io_error(shard.where(),
                     "shards of other text (" + noted("source_files") + " files, " +
                         io::name_text(noted("source_first")) + " first)",
                     "those given (" + facts_.more.find("source_files")->second + " files, " +
                         io::name_text(facts_.more.find("source_first")->second) +
                         " first), each by the name and with the size that it had",
                     "a folder holds shards of one command: repeat it as it was, or give another folder");
    for (auto const& [key, value] : facts_.more) refuse(key, noted(key.c_str()), value);
    refuse("shard", noted("shard"), std::to_string(progress.shards));
    refuse("begin", noted("begin"), text_of_position(next));
    if (progress.finished) throw io_error(shard.where(), "a shard behind the last one", "none");
    auto const number = [&](std::string const& text, char const* key) {
      return io::json::parse(text, shard.where() + ": " + key).as_index(shard.where() + ": " + key);
    };
    auto const end = noted("end");
    auto const first = end.find(':'), second = end.rfind(':');
    if (first == second) throw io_error(shard.where(), "end " + io::name_text(end), "file:byte:line");
    next = {std::uint64_t(number(end.substr(0, first), "end")),
            std::uint64_t(number(end.substr(first + 1, second - first - 1), "end")),
            std::uint64_t(number(end.substr(second + 1), "end"))};
    progress.texts += number(noted("num_texts"), "num_texts");
    progress.empty += number(noted("empty"), "empty");
    progress.dropped += number(noted("dropped"), "dropped");
    progress.documents += shard.num_documents();
    progress.tokens += shard.num_tokens();
    progress.finished = noted("final") == "true";
    ++progress.shards;
  }

  void write(text_position end, bool final) {
    std::vector<index_t> texts;  // [N + 1]
    for (std::size_t d = 0; d < filling_.origins.size(); ++d)
      if (d == 0 || filling_.origins[d] != filling_.origins[d - 1]) texts.push_back(index_t(d));
    texts.push_back(filling_.num_documents());
    auto facts = facts_;
    facts.more["shard"] = std::to_string(progress.shards);
    facts.more["begin"] = text_of_position(next);
    facts.more["end"] = text_of_position(end);
    facts.more["num_texts"] = std::to_string(filling_.num_origins);
    facts.more["empty"] = std::to_string(filling_.num_empty);
    facts.more["dropped"] = std::to_string(filling_.dropped);
    facts.more["final"] = final ? "true" : "false";
    write_token_shard(folder_ / shard_name(progress.shards), facts, filling_.tokens, filling_.offsets, texts);
    ++progress.shards;
    next = end;
    filling_.tokens.clear();  // the memory stays for the next one
    filling_.offsets.assign(1, 0);
    filling_.origins.clear();
    filling_.num_origins = filling_.dropped = filling_.num_empty = 0;
  }

  std::filesystem::path folder_;
  shard_facts facts_;
  index_t shard_tokens_;
  cutting cut_;
  corpus filling_;
};

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
  if (options.cut.max_length < 2)
    throw config_error("data::prepare", "length " + std::to_string(options.cut.max_length), "2 or more");
  if (options.shard_tokens < 1 || options.threads < 1)
    throw config_error("data::prepare",
                       std::to_string(options.shard_tokens) + " tokens a shard, " +
                           std::to_string(options.threads) + " threads",
                       "1 or more of both");
  io::folder_lock const lock(folder);
  auto const files = find_text_files(paths);
  io::content_hash sources;
  std::uint64_t all_bytes = 0;
  for (auto const& file : files) {
    std::error_code unknown;
    auto const size = std::filesystem::file_size(file, unknown);
    sources.update(file.generic_string())
        .update(std::string_view("\n"))
        .update(std::uint64_t(unknown ? 0 : size));
    all_bytes += unknown ? 0 : size;
  }
  shard_facts facts{.tokenizer = words.identity_text(),
                    .vocabulary = words.vocab_size(),
                    .cut = options.cut.name(),
                    .max_length = options.cut.max_length};
  facts.more = {{"field", options.format.field},
                {"shard_tokens", std::to_string(options.shard_tokens)},
                {"source", sources.hex()},
                {"source_files", std::to_string(files.size())},
                {"source_first", files.front().filename().string()}};
  detail::shard_folder out(folder, std::move(facts), options.shard_tokens, options.cut);
  out.progress.all_bytes = all_bytes;
  if (out.progress.finished) {
    out.progress.bytes = all_bytes;
    return out.progress;
  }

  std::uint64_t before = 0;  // files that were done earlier
  for (std::size_t f = 0; f < files.size() && f < out.next.file; ++f) {
    std::error_code unknown;
    auto const size = std::filesystem::file_size(files[f], unknown);
    before += unknown ? 0 : size;
  }
  text_stream texts(files, options.format, out.next);
  detail::tokenizing_threads threads(words, options.format, options.threads);
  constexpr std::size_t block_bytes = std::size_t(1) << 19;
  bool more = true;
  auto const read_block = [&] {
    auto block = std::make_unique<detail::text_block>();
    try {
      for (std::size_t bytes = 0; bytes < block_bytes && block->texts.size() < 4096;) {
        raw_text raw;
        more = texts.next(raw);
        if (!more) break;
        bytes += raw.bytes.size();
        block->texts.push_back(std::move(raw));
      }
    } catch (...) {  // comes behind the texts before it
      block->fault = std::current_exception();
      more = false;
    }
    block->consumed = before + texts.consumed();
    threads.put(std::move(block));
  };
  auto const go_on = [&] { return !report || report(out.progress); };
  while (more || threads.size() > 0) {
    while (more && threads.size() < std::size_t(2 * options.threads + 1)) read_block();
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
