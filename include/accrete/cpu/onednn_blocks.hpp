#pragma once
#if defined(ACCRETE_WITH_ONEDNN)  // set by the build that links it; without, there is nothing here
#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <type_traits>

#include "accrete/backend/types.hpp"
#include "accrete/core/bfloat16.hpp"
#include "accrete/core/view.hpp"
#include "accrete/cpu/gemm_provider.hpp"
#include "accrete/cpu/onednn_product.hpp"
#include "accrete/cpu/parallel.hpp"
#include "accrete/cpu/staging.hpp"
#include "accrete/cpu/stream.hpp"
#include "accrete/cpu/transpose.hpp"
#include "accrete/tensor/tensor.hpp"

/// Products of bfloat16 in blocks that suit oneDNN's fastest code, which takes no gaps between rows and is
/// written anew for every size: 1.3 to 2 times as fast as the code it has for the others. What lies otherwise
/// goes through rooms of the thread's own, with zeros up to the next of a few sizes.
namespace accrete::inline v0::cpu::detail::onednn {

constexpr index_t round_up(index_t n, index_t step) {
  return (n + step - 1) / step * step;
}

/// One of the calling thread's four rooms, which grow to the largest request and are not cleared.
inline std::byte* room_bytes(std::size_t which, index_t bytes) {
  thread_local std::array<tensor<std::byte, 1>, 4> rooms;
  if (rooms[which].size() < bytes) rooms[which] = tensor<std::byte, 1>({bytes});
  return rooms[which].data();
}
template <class T>
T* room(std::size_t which, index_t count) {
  return reinterpret_cast<T*>(room_bytes(which, count * index_t(sizeof(T))));
}

/// `x` as a dense matrix [rows, columns], zeros where it ends before: itself, or a copy in room `which`.
inline bfloat16 const* dense(view<bfloat16 const, 2> x, index_t rows, index_t columns, std::size_t which) {
  if (x.contiguous() && x.rows() == rows && x.columns() == columns) return x.data;
  bfloat16* const copy = room<bfloat16>(which, rows * columns);
  for (index_t i = 0; i < x.rows(); ++i) {
    std::copy_n(x.row(i), x.columns(), copy + i * columns);
    std::fill_n(copy + i * columns + x.columns(), columns - x.columns(), bfloat16());
  }
  std::fill_n(copy + x.rows() * columns, (rows - x.rows()) * columns, bfloat16());
  return copy;
}

/// x^T as such a matrix, in room `which`.
inline bfloat16 const* dense_transposed(view<bfloat16 const, 2> x, index_t rows, index_t columns,
                                        std::size_t which) {
  bfloat16* const copy = room<bfloat16>(which, rows * columns);
  transpose(x, copy, columns);
  for (index_t i = 0; i < x.columns(); ++i)
    std::fill_n(copy + i * columns + x.rows(), columns - x.rows(), bfloat16());
  std::fill_n(copy + x.columns() * columns, (rows - x.columns()) * columns, bfloat16());
  return copy;
}

/// c [m, n] (store) = the first m rows and n columns of `product`, which has rows of `columns`.
template <class P, class R>
void take_over(P const* product, index_t columns, store how, view<R, 2> c) {
  bool const past_caches = is_far(c);
  for (index_t i = 0; i < c.rows(); ++i) {
    P const* const from = product + i * columns;
    R* const to = c.row(i);
    if (how == store::replace) {
      if constexpr (std::same_as<P, R>)
        if (past_caches) {
          stream_copy(from, c.columns(), to);
          continue;
        }
      convert(from, c.columns(), to);
      continue;
    }
#pragma omp simd
    for (index_t j = 0; j < c.columns(); ++j) put(to[j], computed_as<R>(to[j]) + computed_as<P>(from[j]));
  }
}

/// The product in a format P of its own: straight into c where it is as dense as P wants it, else by way of a
/// room.
template <class P, class R>
bool multiply_block_as(operand of_a, operand of_b, store how, view<bfloat16 const, 2> a,
                       view<bfloat16 const, 2> b, view<R, 2> c) {
  constexpr bool wide = std::same_as<P, float>;
  bool const transposed = of_b == operand::transposed;
  // Terms of a sum, whose parts are kept in float: past it the code slows down. A transposed b of more is
  // copied.
  index_t const longest = transposed ? 2048 : 1024;
  index_t const m = round_up(c.rows(), c.rows() > 64 ? 32 : 16);
  index_t const n = round_up(c.columns(), c.columns() > 64 ? 64 : 16);
  index_t const k = of_a == operand::as_is ? a.columns() : a.rows();
  // A gradient of weights is seldom in a cache, and this code reads what it adds to a tile at a time.
  bool const in_cache = how == store::replace || of_a == operand::as_is;
  bool const straight = in_cache && std::same_as<P, R> && c.contiguous() && m == c.rows() && n == c.columns();
  index_t const parts = wide ? (k + longest - 1) / longest : 1;
  bool const adds = straight && how == store::add;
  auto const terms = [&](index_t part) { return part_of(k, part, parts, 64); };
  auto const padded = [&](index_t part) { return round_up(terms(part).size(), 32); };
  auto const code = [&](index_t part) -> compiled_product const& {
    index_t const row_of_b = transposed ? padded(part) : n;
    return code_for(
        {m, n, padded(part), padded(part), row_of_b, n, false, transposed, wide, adds || part > 0, 1});
  };
  for (index_t part = 0; part < parts; ++part)
    if (!code(part).exists()) return false;
  P* const product = straight ? reinterpret_cast<P*>(c.data) : room<P>(2, m * n);
  for (index_t part = 0; part < parts; ++part) {
    range const own = terms(part);
    bfloat16 const* const rows = of_a == operand::as_is
                                     ? dense(a.column_slice(own.first, own.size()), m, padded(part), 0)
                                     : dense_transposed(a.slice(own.first, own.size()), m, padded(part), 0);
    bfloat16 const* const others = transposed ? dense(b.column_slice(own.first, own.size()), n, padded(part), 1)
                                              : dense(b.slice(own.first, own.size()), padded(part), n, 1);
    code(part).run(rows, others, product);
  }
  if (!straight) take_over(product, n, how, c);
  return true;
}

/// c [m, n] (+)= op(a) op(b) on the calling thread. False, and nothing done, where oneDNN has no such code.
template <class R>
bool multiply_block(operand of_a, operand of_b, store how, view<bfloat16 const, 2> a, view<bfloat16 const, 2> b,
                    view<R, 2> c) {
  thread_scope const alone(1);
  // What is added to bfloat16 is rounded once, with what was there.
  if (how == store::add) return multiply_block_as<float>(of_a, of_b, how, a, b, c);
  return multiply_block_as<R>(of_a, of_b, how, a, b, c);
}

/// How a result is cut: `count` blocks, numbered down the columns first, so that neighbours in time share b.
struct block_cut {
  index_t rows, columns, by_rows, by_columns;

  /// Blocks of about half a million numbers at most, and four for each of several threads where there are rows
  /// enough: every block of few rows copies as much of b as one of many.
  block_cut(index_t m, index_t n, int threads) : rows(m), columns(n) {
    constexpr index_t most = index_t(1) << 19, widest = 2048, narrower = 1024, highest = 512, lowest = 192;
    auto const parts = [](index_t count, index_t of) { return (count + of - 1) / of; };
    by_columns = n <= widest ? 1 : parts(n, narrower);
    by_rows = parts(m, (std::min)(highest, most / parts(n, by_columns)));
    if (threads == 1) return;
    by_rows = (std::max)(by_rows, (std::min)(parts(4 * threads, by_columns), parts(m, lowest)));
    by_columns = (std::max)(by_columns, parts(2 * threads, by_rows));
  }
  [[nodiscard]] index_t count() const { return by_rows * by_columns; }
  [[nodiscard]] range row_range(index_t block) const { return part_of(rows, block % by_rows, by_rows, 32); }
  [[nodiscard]] range column_range(index_t block) const {
    return part_of(columns, block / by_rows, by_columns, 64);
  }
};

}  // namespace accrete::inline v0::cpu::detail::onednn
#endif
