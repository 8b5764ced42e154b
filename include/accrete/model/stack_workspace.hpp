#pragma once
#include <vector>

#include "accrete/model/layer_memory.hpp"
#include "accrete/model/recomputation.hpp"
#include "accrete/tensor/arena.hpp"

namespace accrete::inline v0::model {

/// Every buffer a stack needs for a step, measured and then allocated once: what lasts from forward to backward
/// in `memory`, what only lasts within one of them in `passing`, which may therefore lie where others work
/// between the two. Layers from `first_kept` on keep what their backward needs; the ones below run as in
/// inference.
template <backend B>
struct stack_workspace {
  using space = typename B::space;
  arena<space> memory, passing;
  index_t capacity = 0;  ///< most tokens of a step
  int first_kept = 0;
  made_again again;

  real_matrix<B> embedded;                            // [T, D]
  std::vector<std::vector<real_matrix<B>>> boundary;  // [layers + 1][streams], each [T, D]
  std::vector<layer_memory<B>> layers;                // [layers]
  std::vector<real_vector<B>> entry_rows, readout_rows;
  std::vector<real_matrix<B>> entry_kept, readout_kept;  // [T, D] each
  std::vector<real_matrix<B>> gradient, other_gradient;  // [streams], each [T, D]
  layer_scratch<B> scratch;
  real_matrix<B> hidden, dhidden;  // [T, D] what the head reads, and over it its gradient

  /// Of its own; what is lent is not counted.
  [[nodiscard]] std::size_t bytes() const { return memory.capacity() + passing.capacity(); }
  /// Of a layer among those that are made again together.
  [[nodiscard]] int place_in_group(int layer) const {
    return layer < first_kept ? 0 : (layer - first_kept) % again.layers;
  }
};

}  // namespace accrete::inline v0::model
