#pragma once
#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "accrete/model/parameter.hpp"
#include "accrete/wiring/execute.hpp"

namespace accrete::inline v0::model {
namespace detail {

/// A whole program's run on buffers of `n` tokens: cuts the rows, builds the frame, hands it to `use`.
template <class Program, backend B, class Kernels, class Use>
void with_execution(Kernels& kernels, wiring::site where, std::span<real_matrix<B> const> in,
                    std::span<real_matrix<B> const> out, std::span<real_matrix<B> const> kept,
                    std::span<real_vector<B> const> rows, std::span<real_matrix<B> const> scratch, index_t n,
                    Use&& use) {
  wiring::frame<Program, real_matrix<B>, real_vector<B>> frame;
  std::array<real_matrix<B>, std::size_t(Program::size)> kept_rows;
  std::array<real_vector<B>, std::size_t(Program::size)> statistics;
  std::array<real_matrix<B>, std::size_t(wiring::num_scratch<Program>) + 1> scratch_rows;
  auto cut = [n](auto const& from, auto& to) {  // the length of `to` is a constant the compiler can see
    for (std::size_t i = 0; i < to.size(); ++i)
      if (i < from.size()) to[i] = from[i].slice(0, n);
  };
  cut(in, frame.in);
  cut(out, frame.out);
  cut(kept, kept_rows);
  cut(rows, statistics);
  cut(scratch, scratch_rows);
  frame.kept = kept_rows.data();
  frame.rows = statistics.data();
  frame.scratch = scratch_rows.data();
  wiring::execution<Program, Kernels, real_matrix<B>, real_vector<B>> run(kernels, where, frame);
  use(run);
}

template <std::size_t N, class Matrix>
std::array<Matrix, N> first_rows(std::vector<Matrix> const& from, index_t n) {
  std::array<Matrix, N> cut;
  for (std::size_t i = 0; i < N; ++i) cut[i] = from[i].slice(0, n);
  return cut;
}

}  // namespace detail

}  // namespace accrete::inline v0::model
