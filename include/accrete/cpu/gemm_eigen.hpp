#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <Eigen/Core>

#include "accrete/backend/types.hpp"
#include "accrete/core/bfloat16.hpp"
#include "accrete/core/view.hpp"
#include "accrete/cpu/gemm_provider.hpp"
#include "accrete/cpu/parallel.hpp"
#include "accrete/cpu/staging.hpp"
#include "accrete/tensor/tensor.hpp"

namespace accrete::inline v0::cpu::detail {

/// How Eigen's innermost loop handles numbers of type T, with one thing said to the compiler: that a packet
/// of the left side is to be loaded once and kept. GCC 12 otherwise reads it from memory in each of the four
/// multiplications that use it, and the loop then waits for loads at three quarters of the rate.
template <class T>
class kept_packets : public Eigen::internal::gebp_traits<T, T> {
 public:
  template <class Packet>
  EIGEN_STRONG_INLINE void loadLhs(T const* from, Packet& packet) const {
    Eigen::internal::gebp_traits<T, T>::loadLhs(from, packet);
#if EIGEN_COMP_GNUC && EIGEN_ARCH_x86_64
    __asm__("" : "+v"(packet));
#endif
  }
};

}  // namespace accrete::inline v0::cpu::detail

// Eigen asks for products of conjugates only where numbers are complex: these two are ours to define.
template <>
class Eigen::internal::gebp_traits<float, float, true, true, Eigen::Architecture::Target,
                                   Eigen::internal::GEBPPacketFull>
    : public accrete::cpu::detail::kept_packets<float> {};
template <>
class Eigen::internal::gebp_traits<double, double, true, true, Eigen::Architecture::Target,
                                   Eigen::internal::GEBPPacketFull>
    : public accrete::cpu::detail::kept_packets<double> {};

namespace accrete::inline v0::cpu {

/// Products by Eigen. Each thread multiplies its own rows or columns of the result with Eigen's single-threaded
/// algorithm, so that none waits for another's packing. It is called below the expressions, which leaves block
/// sizes and buffers to us: Eigen would take new megabytes for every product. Panels of bfloat16 are widened
/// first, as its own product of them runs at a fifth of the rate.
struct eigen_gemm {
  static constexpr char const* name() { return "eigen"; }
  /// Whether products of T are no slower than those of float.
  template <class T>
  static bool multiplies_fast() {
    return std::same_as<T, float>;
  }

  template <class T, class R>
  static void multiply(int threads, operand of_a, operand of_b, store how, view<T const, 2> a,
                       view<T const, 2> b, view<R, 2> c) {
    index_t const m = c.rows();
    index_t const n = c.columns();
    index_t const k = of_a == operand::as_is ? a.columns() : a.rows();
    if (m == 0 || n == 0) return;
    constexpr double worth_a_thread = 1e5;  // multiplications
    double const useful = double(m) * double(n) * double(k) / worth_a_thread + 1;
    index_t const parts = double(threads) < useful ? threads : index_t(useful);
    if (parts <= 1) return serial(of_a, of_b, how, a, b, c);
    bool const by_rows = m >= n;
    for_parts(threads, parts, [&](index_t part) {
      // Parts end where register tiles do: a tile is 4 rows by 3 packets.
      range const r = by_rows ? detail::part_of(m, part, parts, 4) : detail::part_of(n, part, parts, 48);
      if (r.size() == 0) return;
      if (by_rows) {
        serial(of_a, of_b, how, rows_of(of_a, a, r), b, c.slice(r.first, r.size()));
      } else {
        serial(of_a, of_b, how, a, columns_of(of_b, b, r), c.column_slice(r.first, r.size()));
      }
    });
  }

 private:
  // Blocks that are packed, of b [depth, wide] and of a [high, depth]. Larger than Eigen would have them:
  // measured on one core, each product of a student's step gains a tenth, and both still lie in the third
  // cache.
  template <class T>
  struct block {
    static constexpr index_t depth = 3072 / sizeof(T);
    static constexpr index_t wide = 4608 / sizeof(T);
    static constexpr index_t high = 256;
  };

  /// Where a thread packs its blocks.
  template <class T>
  class blocking : public Eigen::internal::level3_blocking<T, T> {
   public:
    blocking(index_t m, index_t n, index_t k) {
      // Equal pieces, as short ones are slow; of whole turns of the unrolled loop over the depth.
      index_t const pieces = (k + block<T>::depth - 1) / block<T>::depth;
      constexpr index_t turn = 8;
      this->m_kc = (std::min)(block<T>::depth, ((k + pieces - 1) / pieces + turn - 1) / turn * turn);
      this->m_mc = (std::min)(block<T>::wide, n);
      this->m_nc = (std::min)(block<T>::high, m);
      thread_local tensor<T, 1> memory({block<T>::depth * (block<T>::wide + block<T>::high)});
      this->m_blockA = memory.data();
      this->m_blockB = this->m_blockA + block<T>::depth * block<T>::wide;
    }
  };

  /// Rows r of op(m), or its columns.
  template <class T>
  static view<T const, 2> rows_of(operand of_m, view<T const, 2> m, range r) {
    return of_m == operand::as_is ? m.slice(r.first, r.size()) : m.column_slice(r.first, r.size());
  }
  template <class T>
  static view<T const, 2> columns_of(operand of_m, view<T const, 2> m, range r) {
    return rows_of(of_m == operand::as_is ? operand::transposed : operand::as_is, m, r);
  }

  // A panel of the result is summed in floats, over panels of operands that are widened into buffers.
  template <class R>
  static void serial(operand of_a, operand of_b, store how, view<bfloat16 const, 2> a,
                     view<bfloat16 const, 2> b, view<R, 2> c) {
    constexpr index_t high = 256, wide = 1024, deep = 768;
    thread_local tensor<float, 1> memory({high * deep + deep * wide + high * wide});
    float* const room_a = memory.data();
    float* const room_b = room_a + high * deep;
    float* const room_c = room_b + deep * wide;
    auto const widened = [](view<bfloat16 const, 2> m, float* room) {
      for (index_t i = 0; i < m.rows(); ++i) detail::convert(m.row(i), m.columns(), room + i * m.columns());
      return view<float const, 2>(room, m.extents);
    };
    index_t const depth = of_a == operand::as_is ? a.columns() : a.rows();
    for (index_t j = 0; j < c.columns(); j += wide) {
      range const columns{j, (std::min)(c.columns(), j + wide)};
      for (index_t i = 0; i < c.rows(); i += high) {
        range const rows{i, (std::min)(c.rows(), i + high)};
        view<float, 2> const sum(room_c, {rows.size(), columns.size()});
        if (depth == 0) std::fill_n(sum.data, sum.size(), 0.0F);
        for (index_t k = 0; k < depth; k += deep) {
          range const inner{k, (std::min)(depth, k + deep)};
          serial<float>(of_a, of_b, k == 0 ? store::replace : store::add,
                        widened(columns_of(of_a, rows_of(of_a, a, rows), inner), room_a),
                        widened(rows_of(of_b, columns_of(of_b, b, columns), inner), room_b), sum);
        }
        for (index_t r = 0; r < rows.size(); ++r) {
          R* const to = c.row(i + r) + j;
          float const* const from = sum.row(r);
          if (how == store::add)
            for (index_t n = 0; n < columns.size(); ++n) to[n] = R(float(to[n]) + from[n]);
          else
            detail::convert(from, columns.size(), to);
        }
      }
    }
  }

  template <std::floating_point T>
  static void serial(operand of_a, operand of_b, store how, view<T const, 2> a, view<T const, 2> b,
                     view<T, 2> c) {
    if (how == store::replace) {
      for (index_t i = 0; i < c.rows(); ++i) std::fill_n(c.row(i), c.columns(), T(0));
    }
    // One row, as when text is written token by token: b is read once, and not worth packing.
    if (c.rows() == 1 && of_a == operand::as_is) return add_row(of_b, a, b, c);
    if (of_a == operand::as_is) {
      if (of_b == operand::as_is) return add_product<Eigen::ColMajor, Eigen::ColMajor>(a.columns(), a, b, c);
      return add_product<Eigen::ColMajor, Eigen::RowMajor>(a.columns(), a, b, c);
    }
    if (of_b == operand::as_is) return add_product<Eigen::RowMajor, Eigen::ColMajor>(a.rows(), a, b, c);
    return add_product<Eigen::RowMajor, Eigen::RowMajor>(a.rows(), a, b, c);
  }

  template <class T>
  static void add_row(operand of_b, view<T const, 2> a, view<T const, 2> b, view<T, 2> c) {
    using column = Eigen::Matrix<T, Eigen::Dynamic, 1>;
    using matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
    Eigen::Map<column const> const x(a.data, a.columns());
    Eigen::Map<matrix const, Eigen::Unaligned, Eigen::OuterStride<>> const y(b.data, b.rows(), b.columns(),
                                                                             Eigen::OuterStride<>(b.stride));
    Eigen::Map<column> z(c.data, c.columns());
    if (of_b == operand::transposed) {
      z.noalias() += y * x;
    } else {
      z.noalias() += y.transpose() * x;
    }
  }

  // Eigen's algorithm fills column-major results: c^T += op(b)^T op(a)^T, where a matrix that lies row by row
  // is its transpose column by column.
  template <int OrderOfA, int OrderOfB, class T>
  static void add_product(index_t k, view<T const, 2> a, view<T const, 2> b, view<T, 2> c) {
    if (k == 0) return;
    blocking<T> blocks(c.rows(), c.columns(), k);
    Eigen::internal::general_matrix_matrix_product<index_t, T, OrderOfB, true, T, OrderOfA, true,
                                                   Eigen::ColMajor, 1>::run(c.columns(), c.rows(), k, b.data,
                                                                            b.stride, a.data, a.stride, c.data,
                                                                            1, c.stride, T(1), blocks, nullptr);
  }
};

static_assert(gemm_provider<eigen_gemm, float>);
static_assert(gemm_provider<eigen_gemm, double>);
static_assert(gemm_provider<eigen_gemm, bfloat16> && gemm_provider<eigen_gemm, bfloat16, float>);

}  // namespace accrete::inline v0::cpu
