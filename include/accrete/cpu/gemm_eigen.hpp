#pragma once
#include <Eigen/Core>

#include "accrete/backend/types.hpp"
#include "accrete/core/view.hpp"
#include "accrete/cpu/gemm_provider.hpp"
#include "accrete/cpu/parallel.hpp"

namespace accrete::inline v0::cpu {

/// Products by Eigen. Each thread multiplies its own rows or columns of the result with Eigen's single-threaded
/// kernel: as fast as Eigen's own threads on large products, faster on flat ones, and no thread waits for
/// another's packing.
struct eigen_gemm {
  static char const* name() { return "eigen"; }

  template <class T>
  static void multiply(int threads, operand of_a, operand of_b, store how, view<T const, 2> a,
                       view<T const, 2> b, view<T, 2> c) {
    index_t const m = c.rows();
    index_t const n = c.columns();
    index_t const k = of_a == operand::as_is ? a.columns() : a.rows();
    if (m == 0 || n == 0) return;
    constexpr double worth_a_thread = 1e5;  // multiplications
    double const useful = double(m) * double(n) * double(k) / worth_a_thread + 1;
    index_t const parts = double(threads) < useful ? threads : index_t(useful);
    if (parts <= 1) {
      detail::serial_scope const alone;
      serial(of_a, of_b, how, a, b, c);
      return;
    }
    bool const by_rows = m >= n;
    for_parts(threads, parts, [&](index_t part) {
      constexpr index_t grain = 16;  // rows of a register tile: parts end where tiles do
      range const r = detail::part_of(by_rows ? m : n, part, parts, grain);
      if (r.size() == 0) return;
      if (by_rows) {
        auto const a_part =
            of_a == operand::as_is ? a.slice(r.first, r.size()) : a.column_slice(r.first, r.size());
        serial(of_a, of_b, how, a_part, b, c.slice(r.first, r.size()));
      } else {
        auto const b_part =
            of_b == operand::as_is ? b.column_slice(r.first, r.size()) : b.slice(r.first, r.size());
        serial(of_a, of_b, how, a, b_part, c.column_slice(r.first, r.size()));
      }
    });
  }

 private:
  template <class T>
  using matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  template <class T>
  using map = Eigen::Map<matrix<T>, Eigen::Unaligned, Eigen::OuterStride<>>;
  template <class T>
  using const_map = Eigen::Map<matrix<T> const, Eigen::Unaligned, Eigen::OuterStride<>>;

  template <class T>
  static void serial(operand of_a, operand of_b, store how, view<T const, 2> a, view<T const, 2> b,
                     view<T, 2> c) {
    const_map<T> const x(a.data, a.rows(), a.columns(), Eigen::OuterStride<>(a.stride));
    const_map<T> const y(b.data, b.rows(), b.columns(), Eigen::OuterStride<>(b.stride));
    map<T> z(c.data, c.rows(), c.columns(), Eigen::OuterStride<>(c.stride));
    if (of_a == operand::as_is) {
      if (of_b == operand::as_is) {
        put(how, x * y, z);
      } else {
        put(how, x * y.transpose(), z);
      }
    } else {
      if (of_b == operand::as_is) {
        put(how, x.transpose() * y, z);
      } else {
        put(how, x.transpose() * y.transpose(), z);
      }
    }
  }
  template <class Product, class Map>
  static void put(store how, Product const& product, Map& z) {
    if (how == store::add) {
      z.noalias() += product;
    } else {
      z.noalias() = product;
    }
  }
};

static_assert(gemm_provider<eigen_gemm, float>);
static_assert(gemm_provider<eigen_gemm, double>);

}  // namespace accrete::inline v0::cpu
