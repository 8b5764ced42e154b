#pragma once
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "accrete/core/error.hpp"
#include "accrete/core/view.hpp"
#include "accrete/data/corpus.hpp"
#include "accrete/data/document_order.hpp"
#include "accrete/data/ragged_batch.hpp"
#include "accrete/io/bytes.hpp"
#include "accrete/io/content_hash.hpp"
#include "accrete/io/message_text.hpp"

namespace accrete::inline v0::distillation::detail {

/// 64 bits over bytes, for finding damage. Each step is a bijection of the state and of the word, so that any
/// change inside one word of 8 bytes is found for certain.
[[nodiscard]] inline std::uint64_t checksum(std::span<std::byte const> bytes) {
  std::uint64_t h = 0x9E3779B97F4A7C15ull ^ bytes.size();
  auto const mix = [&h](std::uint64_t word) { h = std::rotl((h ^ word) * 0xD6E8FEB86659FD93ull, 29); };
  std::size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) mix(io::load<std::uint64_t>(bytes.data() + at));
  std::uint64_t rest = 0;
  if (at < bytes.size()) std::memcpy(&rest, bytes.data() + at, bytes.size() - at);
  mix(rest);
  return h ^ (h >> 32);
}

/// Throws io_error unless the folder's disk says it has room; one that does not say is believed to have it.
inline void require_room(std::filesystem::path const& folder, std::size_t bytes) {
  std::error_code unknown;
  auto const room = std::filesystem::space(folder, unknown);
  if (!unknown && room.available < bytes)
    throw io_error("distillation::teacher_cache " + io::path_text(folder),
                   io::bytes_text(room.available) + " free", io::bytes_text(bytes),
                   "make room, name another folder, or run without the cache");
}

/// What bounds a document.
struct document_limits {
  index_t capacity;    ///< tokens of a teacher batch
  index_t positions;   ///< of the teacher
  index_t vocabulary;  ///< of the teacher
};
/// Throws config_error unless the teacher can read every document of the list, whole, in one batch.
inline void require_fit(data::corpus const& text, data::shard const& documents, document_limits most) {
  std::string const where = "distillation::teacher_cache";
  if (documents.empty()) throw config_error(where, "0 documents", "1 or more", "give more text");
  index_t const longest = (std::min)(most.capacity, most.positions);
  for (index_t d : documents) {
    if (d < 0 || d >= text.num_documents())
      throw config_error(where, "document " + std::to_string(d),
                         "0 <= document < " + std::to_string(text.num_documents()),
                         "the list belongs to another corpus");
    if (text.length(d) > longest)
      throw config_error(
          where, "document " + std::to_string(d) + " of " + std::to_string(text.length(d)) + " tokens",
          "at most " + std::to_string(longest) +
              (longest == most.capacity ? ", the capacity of a teacher batch" : ", the teacher's positions"),
          "cut documents shorter");
    data::check_ids(text.document(d), most.vocabulary, where);
  }
}

/// What a cache file has to be: its name, its metadata, its rows.
struct cache_plan {
  using fact_list = std::vector<std::pair<std::string, std::string>>;
  fact_list facts;                  ///< the metadata, all of which goes into the name
  std::vector<index_t> offsets{0};  // [n + 1]
  index_t hidden_size;              // D

  /// `source` is what the numbers come from: the teacher and how it is run.
  cache_plan(fact_list source, index_t columns, data::corpus const& text, data::shard const& documents)
      : facts(std::move(source)), hidden_size(columns) {
    io::content_hash corpus;
    index_t longest = 0;
    for (index_t d : documents) {
      auto const ids = text.document(d).to_vector();
      corpus.update(std::uint64_t(text.length(d))).update(std::as_bytes(std::span(ids)));
      longest = (std::max)(longest, text.length(d));
      offsets.push_back(offsets.back() + text.length(d));
    }
    facts.insert(facts.end(), {{"format", "accrete teacher cache 1"},
                               {"corpus", corpus.hex()},
                               {"documents", std::to_string(documents.size())},
                               {"tokens", std::to_string(offsets.back())},
                               {"hidden_size", std::to_string(hidden_size)},
                               {"max_length", std::to_string(longest)}});
  }
  [[nodiscard]] std::string file_name() const {
    io::content_hash all;
    for (auto const& [key, value] : facts) all.update(key).update("=").update(value).update("\n");
    return "teacher-" + all.hex() + ".safetensors";
  }
};

}  // namespace accrete::inline v0::distillation::detail
