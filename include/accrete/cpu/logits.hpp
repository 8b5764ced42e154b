#pragma once
#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>

#include "accrete/backend/arguments.hpp"
#include "accrete/backend/check.hpp"
#include "accrete/backend/types.hpp"
#include "accrete/cpu/context.hpp"
#include "accrete/cpu/halves.hpp"
#include "accrete/cpu/lanes.hpp"
#include "accrete/cpu/linear.hpp"
#include "accrete/cpu/parallel.hpp"
#include "accrete/cpu/staging.hpp"
#include "accrete/cpu/stream.hpp"

namespace accrete::inline v0::cpu {

namespace detail {

/// Blocks of logits, each made in a room of floats that the cache of a core holds.
struct logit_blocks {
  static constexpr index_t widest = 1024, highest = 512;
  index_t rows, columns, by_rows, by_columns;

  logit_blocks(index_t r, index_t c)
      : rows(r), columns(c), by_rows((r + highest - 1) / highest), by_columns((c + widest - 1) / widest) {}
  [[nodiscard]] index_t count() const { return by_rows * by_columns; }
  [[nodiscard]] range row_range(index_t block) const { return part_of(rows, block % by_rows, by_rows, 32); }
  [[nodiscard]] range column_range(index_t block) const {
    return part_of(columns, block / by_rows, by_columns, 64);
  }
};

/// to [n] = from [n] - origin, n at most a block's width.
inline void store_relative(float origin, float const* from, index_t n, bool past_caches, half* to) {
  if (!past_caches) return convert_from(origin, from, n, to);
  alignas(64) std::array<half, std::size_t(logit_blocks::widest)> placed;
  convert_from(origin, from, n, placed.data());
  stream_copy(placed.data(), n, to);
}

}  // namespace detail

/// x [n, D], head [V, D], targets [n] -> logits [n, V] = x head^T. In half, each row is relative to the logit
/// of its target: a softmax does not see it, and what counts lies where half is finest. Throws shape_error.
template <class T, class Gemm>
void head_logits(backend<T, Gemm> const& ctx, args::in2<T> x, args::in2<T> head, args::ids<> targets,
                 args::out2<logits_as<T>> logits) {
  using real = computed_as<T>;
  check::shape("head_logits", "targets", targets, {x.rows()});
  check::targets_below("head_logits", targets, head.rows());
  if constexpr (std::same_as<logits_as<T>, real>) {
    linear(ctx, x, head, logits, store::replace);
  } else {
    detail::check_provider<T, real, Gemm>();
    check::shape("head_logits", "x", x, {logits.rows(), head.columns()});
    check::shape("head_logits", "logits", logits, {x.rows(), head.rows()});
    auto const timing = detail::time_product(ctx, "head_logits", x.rows(), head.rows(), head.columns());
    detail::logit_blocks const cut(logits.rows(), logits.columns());
    bool const past_caches = detail::is_far(logits);
    constexpr index_t room = detail::logit_blocks::widest * detail::logit_blocks::highest;
    real* const rooms = ctx.template scratch<real>(ctx.threads() * room + x.rows());
    real* const origins = rooms + ctx.threads() * room;  // [n]
    for (index_t t = 0; t < x.rows(); ++t)
      origins[t] = targets(t) == ignore_target ? real(0)
                                               : detail::dot<real>(x.row(t), head.row(targets(t)), x.columns());
    for_tasks(ctx.threads(), cut.count(), [&](index_t block, int thread) {
      range const rows = cut.row_range(block), columns = cut.column_range(block);
      view<real, 2> const product(rooms + thread * room, {rows.size(), columns.size()});
      Gemm::template multiply<T>(1, operand::as_is, operand::transposed, store::replace,
                                 x.slice(rows.first, rows.size()), head.slice(columns.first, columns.size()),
                                 product);
      for (index_t i = 0; i < rows.size(); ++i) {
        index_t const t = rows.first + i;
        detail::store_relative(origins[t], product.row(i), columns.size(), past_caches, logits.row(t) + columns.first);
      }
    });
  }
}

}  // namespace accrete::inline v0::cpu
