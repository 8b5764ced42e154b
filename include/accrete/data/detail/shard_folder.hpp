#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>

#include "accrete/core/error.hpp"
#include "accrete/core/view.hpp"
#include "accrete/data/corpus.hpp"
#include "accrete/data/cutting.hpp"
#include "accrete/data/open_shards.hpp"
#include "accrete/data/text_stream.hpp"
#include "accrete/data/token_shard.hpp"
#include "accrete/io/json.hpp"
#include "accrete/io/leftovers.hpp"
#include "accrete/io/message_text.hpp"

namespace accrete::inline v0::data {

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
  static constexpr char const* one_command =
      "a folder holds shards of one command: repeat it as it was, or give another folder";

  static std::string text_of_position(text_position p) {
    return std::to_string(p.file) + ":" + std::to_string(p.byte) + ":" + std::to_string(p.line);
  }
  static text_position position_noted(token_shard const& shard, char const* key) {
    auto const& text = noted(shard, key);
    auto const first = text.find(':'), second = text.rfind(':');
    if (first == second)
      throw io_error(shard.where(), std::string(key) + " " + io::name_text(text), "file:byte:line");
    auto const number = [&](std::string const& part) { return std::uint64_t(number_in(part, shard, key)); };
    return {number(text.substr(0, first)), number(text.substr(first + 1, second - first - 1)),
            number(text.substr(second + 1))};
  }
  static index_t number_in(std::string const& text, token_shard const& shard, char const* key) {
    auto const where = shard.where() + ": " + key;
    return io::json::parse(text, where).as_index(where);
  }
  static index_t number_noted(token_shard const& shard, char const* key) {
    return number_in(noted(shard, key), shard, key);
  }
  static std::string const& noted(token_shard const& shard, char const* key) {
    auto const& more = shard.facts().more;
    auto const at = more.find(key);
    if (at == more.end())
      throw io_error(shard.where(), std::string("no '") + key + "' in its metadata", "a shard made by prepare");
    return at->second;
  }
  [[nodiscard]] std::string const& own(char const* key) const { return facts_.more.find(key)->second; }
  static void require_same(token_shard const& shard, std::string const& what, std::string const& got,
                           std::string const& want) {
    if (got != want)
      throw io_error(shard.where(), what + " " + io::name_text(got), io::name_text(want), one_command);
  }

  void require_same_command(token_shard const& shard) const {
    auto const& there = shard.facts();
    require_same(shard, "tokenizer", there.tokenizer, facts_.tokenizer);
    require_same(shard, "vocabulary", std::to_string(there.vocabulary), std::to_string(facts_.vocabulary));
    require_same(shard, "cut", there.cut, facts_.cut);
    require_same(shard, "length", std::to_string(there.max_length), std::to_string(facts_.max_length));
    if (noted(shard, "source") != own("source"))
      throw io_error(shard.where(),
                     "shards of other text (" + noted(shard, "source_files") + " files, " +
                         io::name_text(noted(shard, "source_first")) + " first)",
                     "those given (" + own("source_files") + " files, " + io::name_text(own("source_first")) +
                         " first), each by the name and with the size that it had",
                     one_command);
    for (auto const& [key, value] : facts_.more) require_same(shard, key, noted(shard, key.c_str()), value);
  }

  /// The next shard of an earlier call.
  void take_over(token_shard const& shard) {
    require_same_command(shard);
    require_same(shard, "shard", noted(shard, "shard"), std::to_string(progress.shards));
    require_same(shard, "begin", noted(shard, "begin"), text_of_position(next));
    if (progress.finished) throw io_error(shard.where(), "a shard behind the last one", "none");
    next = position_noted(shard, "end");
    progress.texts += number_noted(shard, "num_texts");
    progress.empty += number_noted(shard, "empty");
    progress.dropped += number_noted(shard, "dropped");
    progress.documents += shard.num_documents();
    progress.tokens += shard.num_tokens();
    progress.finished = noted(shard, "final") == "true";
    ++progress.shards;
  }

  void write(text_position end, bool final) {
    auto facts = facts_;
    facts.more["shard"] = std::to_string(progress.shards);
    facts.more["begin"] = text_of_position(next);
    facts.more["end"] = text_of_position(end);
    facts.more["num_texts"] = std::to_string(filling_.num_origins);
    facts.more["empty"] = std::to_string(filling_.num_empty);
    facts.more["dropped"] = std::to_string(filling_.dropped);
    facts.more["final"] = final ? "true" : "false";
    write_token_shard(folder_ / shard_name(progress.shards), facts, filling_.tokens, filling_.offsets,
                      filling_.text_starts());
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

}  // namespace accrete::inline v0::data
