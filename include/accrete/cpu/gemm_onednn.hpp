#pragma once
#if defined(ACCRETE_WITH_ONEDNN)  // set by the build that links it; without, there is nothing here
#include <dnnl.h>

#include <algorithm>
#include <array>
#include <concepts>

#include "accrete/backend/types.hpp"
#include "accrete/core/bfloat16.hpp"
#include "accrete/core/view.hpp"
#include "accrete/cpu/gemm_eigen.hpp"
#include "accrete/cpu/gemm_provider.hpp"
#include "accrete/cpu/onednn_blocks.hpp"
#include "accrete/cpu/onednn_product.hpp"
#include "accrete/cpu/parallel.hpp"

namespace accrete::inline v0::cpu {

/// Products by oneDNN: f32 by its classic routine, bfloat16 by code it writes for each size of block,
/// which is kept for the next. What it has no code for on this processor, and f64, go to Eigen.
struct onednn_gemm {
  static constexpr char const* name() { return "onednn"; }
  /// Whether products of T are no slower than those of float on this processor.
  template <class T>
  static bool multiplies_fast() {
    constexpr int needed =
        dnnl_cpu_isa_avx512_core_bf16;  // a set of bits, those of what it builds on among them
    return std::same_as<T, float> ||
           (std::same_as<T, bfloat16> && (int(dnnl_get_effective_cpu_isa()) & needed) == needed);
  }

  template <class T, class R>
  static void multiply(int threads, operand of_a, operand of_b, store how, view<T const, 2> a,
                       view<T const, 2> b, view<R, 2> c) {
    index_t const m = c.rows();
    index_t const n = c.columns();
    index_t const k = of_a == operand::as_is ? a.columns() : a.rows();
    // One row is a product of a matrix and a vector: nothing is gained by writing or packing for it.
    bool const worthwhile = m > 1 && n > 1 && k > 1;
    if constexpr (!std::same_as<T, double>) {
      if (worthwhile) {
        double const useful = double(m) * double(n) * double(k) / worth_a_thread + 1;
        int const used = double(threads) < useful ? threads : int(useful);
        if constexpr (std::same_as<T, bfloat16>)
          if (of_a == operand::as_is || (k <= short_sum && b.contiguous())) {
            if constexpr (std::same_as<R, float>)
              if (used > 1 && k >= long_sum * (m + n)) return multiply_by_terms(used, of_a, of_b, how, a, b, c);
            return multiply_in_blocks(used, of_a, of_b, how, a, b, c);
          }
        if (used > few_threads) return multiply_whole(used, of_a, of_b, how, a, b, c);
        return multiply_in_tasks(used, of_a, of_b, how, a, b, c);
      }
    }
    eigen_gemm::multiply<T>(threads, of_a, of_b, how, a, b, c);
  }

 private:
  static constexpr double worth_a_thread = 1e5;  // multiplications
  static constexpr index_t largest_task = 1024;  // rows or columns: what oneDNN copies for one stays small
  static constexpr index_t short_sum = 1024;     // terms up to which copying a transposed operand pays
  static constexpr index_t long_sum = 8;         // terms for a row or column from which sharing them out pays
  static constexpr int few_threads = 4;  // more share a product better by oneDNN's own cut in two dimensions

  /// The rows of what of(v) is, or its columns.
  template <class T>
  static view<T, 2> rows_of(operand o, view<T, 2> const& v, range r) {
    return o == operand::as_is ? v.slice(r.first, r.size()) : v.column_slice(r.first, r.size());
  }
  template <class T>
  static view<T, 2> columns_of(operand o, view<T, 2> const& v, range r) {
    return o == operand::as_is ? v.column_slice(r.first, r.size()) : v.slice(r.first, r.size());
  }

  /// In blocks, each for who comes free first.
  template <class R>
  static void multiply_in_blocks(int threads, operand of_a, operand of_b, store how, view<bfloat16 const, 2> a,
                                 view<bfloat16 const, 2> b, view<R, 2> c) {
    detail::onednn::block_cut const cut(c.rows(), c.columns(), threads);
    if (cut.count() == 1) return multiply_block(cut, 0, of_a, of_b, how, a, b, c);
    for_tasks(threads, cut.count(),
              [&](index_t block, int) { multiply_block(cut, block, of_a, of_b, how, a, b, c); });
  }
  /// One of them. What oneDNN has no code for goes its slower way.
  template <class R>
  static void multiply_block(detail::onednn::block_cut const& cut, index_t block, operand of_a, operand of_b,
                             store how, view<bfloat16 const, 2> a, view<bfloat16 const, 2> b, view<R, 2> c) {
    range const rows = cut.row_range(block), columns = cut.column_range(block);
    if (rows.size() == 0 || columns.size() == 0) return;
    auto const own_a = rows_of(of_a, a, rows);
    auto const own_b = columns_of(of_b, b, columns);
    auto const own_c = c.slice(rows.first, rows.size()).column_slice(columns.first, columns.size());
    if (!detail::onednn::multiply_block(of_a, of_b, how, own_a, own_b, own_c))
      multiply_whole(1, of_a, of_b, how, own_a, own_b, own_c);
  }

  /// Sums so long that every block of the result would copy much of b: threads share the terms, too, and what
  /// each part of them comes to is added in the parts' order.
  static void multiply_by_terms(int threads, operand of_a, operand of_b, store how, view<bfloat16 const, 2> a,
                                view<bfloat16 const, 2> b, view<float, 2> c) {
    index_t const parts = (std::min)(2 * threads, 8), k = of_a == operand::as_is ? a.columns() : a.rows();
    index_t const size = c.rows() * c.columns();
    float* const others = detail::onednn::room<float>(3, (parts - 1) * size);
    auto const sum_of = [&](index_t part) {
      return part == 0 ? c : view<float, 2>(others + (part - 1) * size, c.extents);
    };
    detail::onednn::block_cut const cut(c.rows(), c.columns(), int(2 * threads / parts));
    for_tasks(threads, parts * cut.count(), [&](index_t task, int) {
      index_t const part = task / cut.count();
      range const terms = detail::part_of(k, part, parts, 64);
      multiply_block(cut, task % cut.count(), of_a, of_b, part == 0 ? how : store::replace,
                     columns_of(of_a, a, terms), rows_of(of_b, b, terms), sum_of(part));
    });
    for_ranges(threads, c.rows(), parts * c.columns(), [&](range rows) {
      for (index_t part = 1; part < parts; ++part)
        detail::onednn::take_over(sum_of(part).row(rows.first), c.columns(), store::add,
                                  c.slice(rows.first, rows.size()));
    });
  }

  /// Shares the result's rows or columns, whichever are more, among few threads in more tasks than threads,
  /// each for who comes free first: two hardware threads of one core, or a machine with other work, are never
  /// equally fast.
  template <class T, class R>
  static void multiply_in_tasks(int threads, operand of_a, operand of_b, store how, view<T const, 2> a,
                                view<T const, 2> b, view<R, 2> c) {
    if (threads == 1) return multiply_whole(1, of_a, of_b, how, a, b, c);
    bool const by_rows = c.rows() >= c.columns();
    index_t const all = by_rows ? c.rows() : c.columns();
    // Code for bfloat16 copies both operands for each task, which takes some of what many tasks even out.
    index_t const each = std::same_as<T, float> && all >= largest_task ? 4 : 2;
    index_t const tasks = (std::max)(threads * each, all / largest_task);
    for_tasks(threads, tasks, [&](index_t task, int) {
      range const own = detail::part_of(all, task, tasks, 32);
      if (own.size() == 0) return;
      if (by_rows)
        multiply_whole(1, of_a, of_b, how, rows_of(of_a, a, own), b, c.slice(own.first, own.size()));
      else
        multiply_whole(1, of_a, of_b, how, a, columns_of(of_b, b, own), c.column_slice(own.first, own.size()));
    });
  }

  /// On `threads` threads, as oneDNN shares them.
  static void multiply_whole(int threads, operand of_a, operand of_b, store how, view<float const, 2> a,
                             view<float const, 2> b, view<float, 2> c) {
    auto const letter = [](operand o) { return o == operand::as_is ? 'N' : 'T'; };
    index_t const k = of_a == operand::as_is ? a.columns() : a.rows();
    detail::thread_scope const with(threads);
    detail::onednn::check(
        dnnl_sgemm(letter(of_a), letter(of_b), c.rows(), c.columns(), k, 1.0F, a.data, row_of(a), b.data,
                   row_of(b), how == store::add ? 1.0F : 0.0F, c.data, row_of(c)),
        "dnnl_sgemm");
  }
  template <class R>
  static void multiply_whole(int threads, operand of_a, operand of_b, store how, view<bfloat16 const, 2> a,
                             view<bfloat16 const, 2> b, view<R, 2> c) {
    if (!multiply_in_parts(threads, of_a, of_b, how, a, b, c))
      eigen_gemm::multiply<bfloat16>(threads, of_a, of_b, how, a, b, c);
  }

  /// A long sum is taken in parts, where what is between them can be kept in float: oneDNN's code for it loses
  /// a third of its speed past a few thousand terms. False, and nothing done, where there is no code.
  template <class R>
  static bool multiply_in_parts(int threads, operand of_a, operand of_b, store how, view<bfloat16 const, 2> a,
                                view<bfloat16 const, 2> b, view<R, 2> c) {
    constexpr bool wide = std::same_as<R, float>;
    constexpr index_t longest = 2048;
    index_t const k = of_a == operand::as_is ? a.columns() : a.rows();
    index_t const parts = wide ? (k + longest - 1) / longest : 1;
    detail::thread_scope const with(threads);
    auto const terms = [&](index_t part) { return detail::part_of(k, part, parts, 64); };
    auto const code = [&](index_t part) -> auto const& {
      return detail::onednn::code_for({c.rows(), c.columns(), terms(part).size(), row_of(a), row_of(b),
                                       row_of(c), of_a == operand::transposed, of_b == operand::transposed,
                                       wide, part > 0 || how == store::add, threads});
    };
    for (index_t part = 0; part < parts; ++part)
      if (!code(part).exists()) return false;
    for (index_t part = 0; part < parts; ++part)
      code(part).run(columns_of(of_a, a, terms(part)).data, rows_of(of_b, b, terms(part)).data, c.data);
    return true;
  }

  /// A matrix of one row may say any distance to the next.
  template <class T>
  static index_t row_of(view<T, 2> const& v) {
    return v.rows() > 1 ? v.stride : v.columns();
  }
};

static_assert(gemm_provider<onednn_gemm, float> && gemm_provider<onednn_gemm, double>);
static_assert(gemm_provider<onednn_gemm, bfloat16> && gemm_provider<onednn_gemm, bfloat16, float>);

}  // namespace accrete::inline v0::cpu
#endif
