#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include "accrete/core/error.hpp"
#include "accrete/core/view.hpp"
#include "accrete/data/corpus.hpp"
#include "accrete/data/ragged_batch.hpp"
#include "accrete/data/shard.hpp"
#include "accrete/distill/detail/cache_build.hpp"
#include "accrete/distill/detail/cache_plan.hpp"
#include "accrete/io/bytes.hpp"
#include "accrete/io/message_text.hpp"
#include "accrete/io/safetensors.hpp"
#include "accrete/io/safetensors_dtype.hpp"
#include "accrete/model/teacher.hpp"

namespace accrete::inline v0::distillation {

/// The teacher's last hidden state, after its final norm, of every token of some documents, on disk. It is D
/// numbers per token where logits would be the whole vocabulary; phases, configurations and seeds share it.
///
/// A safetensors file `teacher-<hash>.safetensors`; the hash covers all that its content follows from: teacher,
/// backend and dtype, and the documents' tokens in their order. It holds
///   offsets   I64 [n + 1]  first row of each document
///   documents I64 [n]      their numbers when it was written; for the reader's eye, never read back
///   hidden    F32, F64 or BF16 [N, D], the backend's scalar
///   checksums U64 [n]      of each document's rows
/// On opening, everything but the rows is checked, and a file that fails is built anew. Rows are checked the
/// first time a document is gathered, where they are about to be read anyway: damage there throws.
template <backend B>
class teacher_cache {
  static_assert(std::is_same_v<typename B::space, mem::host>,
                "[accrete] teacher_cache: the teacher must run on a backend of host memory");

 public:
  using scalar = typename B::scalar;

  /// Opens the file of these documents in `folder`, or runs the teacher over them, at most `capacity` tokens at
  /// a time. `progress(tokens done, tokens in all)` is called before the first batch and after each one; when
  /// it returns false (build_interrupted) or throws, nothing stays behind. Several processes may build one
  /// file: each writes its own and the last one's is kept. Throws config_error for documents that do not fit,
  /// io_error for a folder that cannot be written or has no room, both before the teacher runs.
  template <class Progress>
  static teacher_cache open_or_build(std::filesystem::path const& folder, teacher<B>& t,
                                     data::corpus const& text, data::shard const& documents, index_t capacity,
                                     Progress&& progress) {
    detail::require_fit(text, documents, {capacity, t.max_positions(), t.config().vocab_size});
    detail::cache_plan const wanted(
        {{"teacher", t.identity()}, {"backend", B::name()}, {"dtype", io::name_of(dtype)}},
        t.config().hidden_size, text, documents);
    auto const path = folder / wanted.file_name();
    std::string reason;
    std::error_code ignored;
    if (std::filesystem::exists(path, ignored)) {
      try {
        return teacher_cache(path, wanted, text, documents);
      } catch (error const& e) {
        reason = e.what();
      }
    }
    std::error_code failed;
    std::filesystem::create_directories(folder, failed);
    if (failed)
      throw io_error("distillation::teacher_cache " + io::path_text(folder), "'" + failed.message() + "'",
                     "a folder to write to", "name another one, or run without the cache");
    detail::require_room(folder, bytes_needed(t, text, documents));
    detail::build_cache(path, wanted, t, text, documents, capacity, progress);
    teacher_cache made(path, wanted, text, documents);
    made.was_reused_ = false;
    made.reason_ = std::move(reason);
    return made;
  }
  static teacher_cache open_or_build(std::filesystem::path const& folder, teacher<B>& t,
                                     data::corpus const& text, data::shard const& documents, index_t capacity) {
    return open_or_build(folder, t, text, documents, capacity, [](index_t, index_t) {});
  }

  /// Bytes on disk, at most `header_room` too many.
  [[nodiscard]] static std::size_t bytes_needed(teacher<B> const& t, data::corpus const& text,
                                                data::shard const& documents) {
    std::size_t tokens = 0;
    for (index_t d : documents) tokens += std::size_t(text.length(d));
    return tokens * std::size_t(t.config().hidden_size) * sizeof(scalar) + (3 * documents.size() + 1) * 8 +
           header_room;
  }
  static constexpr std::size_t header_room = 4096;

  [[nodiscard]] bool was_reused() const { return was_reused_; }
  /// One line on why a file that was there had to be built anew; empty where there was none, or it was good.
  [[nodiscard]] std::string const& reason() const { return reason_; }
  [[nodiscard]] std::filesystem::path const& path() const { return file_.path(); }
  [[nodiscard]] index_t hidden_size() const { return hidden_size_; }
  [[nodiscard]] index_t num_tokens() const { return offsets_.back(); }
  [[nodiscard]] index_t num_documents() const { return index_t(token_sums_.size()); }

  /// Copies the rows of a batch's documents, which are named by their corpus numbers, to out [T, D]. Allocates
  /// nothing. Throws shape_error for another shape, config_error for a document that is not in the cache or has
  /// other tokens there, io_error for rows that are damaged. One thread at a time.
  void gather(data::ragged_batch const& batch, view<scalar, 2, mem::host> out) const {
    if (out.rows() != batch.num_tokens() || out.columns() != hidden_size_)
      throw shape_error("distillation::teacher_cache::gather", io::shape_text(out.extents),
                        io::shape_text(std::array{batch.num_tokens(), hidden_size_}));
    for (index_t d = 0; d < batch.num_documents(); ++d) {
      auto const slot = slot_of(batch, d);
      auto const rows = checked_rows(slot, batch.documents[std::size_t(d)]);
      auto const row_bytes = std::size_t(hidden_size_) * sizeof(scalar);
      auto const first = batch.offsets[std::size_t(d)];
      auto const count = batch.offsets[std::size_t(d) + 1] - first;
      for (index_t i = 0; i < count; ++i)
        std::memcpy(out.row(first + i), rows.data() + std::size_t(i) * row_bytes, row_bytes);
    }
  }

 private:
  static constexpr io::safetensors_dtype dtype = io::dtype_of<scalar>();

  /// Opens and checks; throws io_error that says what is wrong.
  teacher_cache(std::filesystem::path const& path, detail::cache_plan const& wanted, data::corpus const& text,
                data::shard const& documents)
      : file_(path), offsets_(wanted.offsets), hidden_size_(wanted.hidden_size) {
    for (auto const& [key, value] : wanted.facts) {
      auto const found = file_.metadata().find(key);
      std::string const got = found == file_.metadata().end() ? "none" : io::name_text(found->second);
      if (found == file_.metadata().end() || found->second != value)
        throw io_error(file_.where() + ": metadata '" + key + "'", got, "'" + value + "'");
    }
    index_t const n = index_t(documents.size());
    auto const offsets = bytes_of("offsets", io::safetensors_dtype::i64, {n + 1});
    if (!std::equal(offsets.begin(), offsets.end(), std::as_bytes(std::span(offsets_)).begin()))
      throw io_error(file_.where() + ": tensor 'offsets'", "other documents", "those that were asked for");
    (void)bytes_of("documents", io::safetensors_dtype::i64, {n});
    rows_ = bytes_of("hidden", dtype, {offsets_.back(), hidden_size_});
    checksums_ = bytes_of("checksums", io::safetensors_dtype::u64, {n});

    checked_.assign(documents.size(), false);
    slots_.assign(std::size_t(text.num_documents()), -1);
    for (index_t slot = 0; slot < n; ++slot) {
      auto const d = documents[std::size_t(slot)];
      slots_[std::size_t(d)] = slot;
      auto const ids = text.document(d).to_vector();
      token_sums_.push_back(detail::checksum(std::as_bytes(std::span(ids))));
    }
  }

  [[nodiscard]] std::span<std::byte const> bytes_of(char const* name, io::safetensors_dtype type,
                                                    std::vector<index_t> const& shape) const {
    auto const& found = file_.tensor(name);
    if (found.dtype != type || found.shape != shape)
      throw io_error(file_.where() + ": tensor '" + name + "'",
                     io::name_of(found.dtype) + io::shape_text(found.shape),
                     io::name_of(type) + io::shape_text(shape));
    return found.bytes;
  }

  // A batch of another corpus can have documents of the same numbers and lengths: its tokens tell.
  [[nodiscard]] std::size_t slot_of(data::ragged_batch const& batch, index_t d) const {
    index_t const number = batch.documents[std::size_t(d)];
    index_t const slot = number >= 0 && number < index_t(slots_.size()) ? slots_[std::size_t(number)] : -1;
    if (slot < 0)
      throw config_error("distillation::teacher_cache::gather", "document " + std::to_string(number),
                         "one of the " + std::to_string(num_documents()) + " in the cache",
                         "build it for all documents of the run");
    if (detail::checksum(std::as_bytes(batch.document(d))) != token_sums_[std::size_t(slot)])
      throw config_error("distillation::teacher_cache::gather",
                         "other tokens in document " + std::to_string(number), "those the cache was built for",
                         "the batch is of another corpus");
    return std::size_t(slot);
  }

  [[nodiscard]] std::span<std::byte const> checked_rows(std::size_t slot, index_t number) const {
    auto const row_bytes = std::size_t(hidden_size_) * sizeof(scalar);
    auto const first = std::size_t(offsets_[slot]);
    auto const rows = rows_.subspan(first * row_bytes, (std::size_t(offsets_[slot + 1]) - first) * row_bytes);
    if (!checked_[slot]) {
      if (detail::checksum(rows) != io::load<std::uint64_t>(checksums_.data() + slot * 8))
        throw io_error(file_.where(), "damaged hidden states of document " + std::to_string(number),
                       "those that were written", "delete the file: the next run builds it anew");
      checked_[slot] = true;
    }
    return rows;
  }

  io::safetensors_file file_;
  std::vector<index_t> offsets_;           // [n + 1]
  index_t hidden_size_;                    // D
  std::span<std::byte const> rows_;        // [N, D] scalars, in the mapped file
  std::span<std::byte const> checksums_;   // [n]
  std::vector<index_t> slots_;             // [corpus documents] place in the cache, -1: not there
  std::vector<std::uint64_t> token_sums_;  // [n]
  mutable std::vector<bool> checked_;      // [n] rows known to be whole
  bool was_reused_ = true;
  std::string reason_;
};

}  // namespace accrete::inline v0::distillation
