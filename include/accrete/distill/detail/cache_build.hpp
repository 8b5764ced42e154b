#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "accrete/core/error.hpp"
#include "accrete/core/view.hpp"
#include "accrete/data/corpus.hpp"
#include "accrete/data/ragged_batch.hpp"
#include "accrete/data/shard.hpp"
#include "accrete/distill/detail/cache_plan.hpp"
#include "accrete/io/safetensors_dtype.hpp"
#include "accrete/io/safetensors_writer.hpp"
#include "accrete/model/teacher.hpp"
#include "accrete/model/token_batch.hpp"

namespace accrete::inline v0::distillation {

/// Thrown when `progress` says to stop a build.
struct build_interrupted : error {
  using error::error;
};

namespace detail {

/// Tells `progress` how far a build is; throws build_interrupted where it says to stop.
template <class Progress>
void tell(Progress& progress, index_t done, index_t all) {
  if constexpr (std::is_void_v<std::invoke_result_t<Progress&, index_t, index_t>>) {
    progress(done, all);
  } else {
    if (!progress(done, all))
      throw build_interrupted("distillation::teacher_cache",
                              "a stop after " + std::to_string(done) + " of " + std::to_string(all) + " tokens",
                              "all of them", "nothing was kept");
  }
}

/// Runs the teacher over the documents of a plan, at most `capacity` tokens at a time, and writes its last
/// hidden states as the file that was planned, whole or not at all.
template <backend B, class Progress>
void build_cache(std::filesystem::path const& path, cache_plan const& wanted, teacher<B>& t,
                 data::corpus const& text, data::shard const& documents, index_t capacity, Progress& progress) {
  auto const n = index_t(documents.size());
  index_t const all = wanted.offsets.back();
  io::safetensors_writer out(path);
  out.declare("offsets", io::safetensors_dtype::i64, {n + 1})
      .declare("documents", io::safetensors_dtype::i64, {n})
      .declare("hidden", io::dtype_of<typename B::scalar>(), {all, wanted.hidden_size})
      .declare("checksums", io::safetensors_dtype::u64, {n});
  for (auto const& [key, value] : wanted.facts) out.metadata(key, value);
  out.append("offsets", std::as_bytes(std::span(wanted.offsets)));
  out.append("documents", std::as_bytes(std::span(documents)));

  tell(progress, 0, all);
  index_t const room = (std::min)(capacity, all);
  auto workspace = t.make_workspace(room);
  model::operand_room<B> operands;
  data::ragged_batch batch;
  std::vector<std::uint64_t> sums;
  for (std::size_t next = 0; next < documents.size();) {
    batch.clear();
    auto const last = next + data::documents_in_batch(text, documents, next, room);
    for (; next < last; ++next) batch.append(text.document(documents[next]), documents[next]);
    auto const hidden = operands.hold(t.context(), t.forward(model::views_of(batch), workspace));  // [T, D]
    for (index_t d = 0; d < batch.num_documents(); ++d) {
      auto const first = batch.offsets[std::size_t(d)];
      auto const rows = hidden.slice(first, batch.offsets[std::size_t(d) + 1] - first).flat();
      auto const bytes = std::as_bytes(std::span(rows.data, std::size_t(rows.size())));
      sums.push_back(checksum(bytes));
      out.append("hidden", bytes);
    }
    tell(progress, wanted.offsets[next], all);
  }
  out.append("checksums", std::as_bytes(std::span(sums)));
  out.commit();
}

}  // namespace detail

}  // namespace accrete::inline v0::distillation
