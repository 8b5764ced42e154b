#pragma once
#include <cstddef>
#include <vector>

#include "accrete/model/decoder_layer.hpp"
#include "accrete/model/operand_room.hpp"
#include "accrete/tensor/arena.hpp"
#include "accrete/wiring/memory_plan.hpp"

namespace accrete::inline v0::model {

/// What one layer keeps from its forward for its backward (training), or what all layers share (inference). T
/// is the capacity of the workspace; a step uses the first rows.
template <backend B>
struct layer_memory {
  std::vector<real_matrix<B>> kept;  // [T, D] each, numbered by the wiring's plan; see `common_memory`
  std::vector<real_vector<B>> rows;  // [T] each, statistics of the wiring's norms
  matrix<B> qkv;                     // [T, q|k|v] as projected; q and k rotated in place where no norm follows
  matrix<B> heads;                   // [T, q|k|v up to the last with a head norm] normalized and rotated
  real_matrix<B> head_rstd;          // [T, heads + 2 kv_heads]
  matrix<B> attended;                // [T, heads * head_dim]
  real_matrix<B> log_sum_exp;        // [T, heads]
  matrix<B> gate_up;                 // [T, 2 F]; all layers' same one where it is made again
};

/// What all layers share where a backward makes it again: gate|up, and what the wiring can restore.
template <backend B>
struct common_memory {
  std::vector<real_matrix<B>> restored;  // [T, D] each, the first of what is kept
  matrix<B> gate_up;                     // [T, 2 F]
};

/// Buffers every layer uses in turn.
template <backend B>
struct layer_scratch {
  std::vector<real_matrix<B>> wiring;  // [T, D] each
  matrix<B> operand,
      gradient;  // [T, D] a sublayer's input and its output's gradient where products read another format
  matrix<B> activated, dactivated;  // [T, F]
  matrix<B> dgate_up;               // [T, 2 F]
  matrix<B> dqkv;                   // [T, q|k|v]
  matrix<B> dheads;                 // as `heads`
  matrix<B> dattended;              // [T, heads * head_dim]
};

template <backend B, class Space = typename B::space>
layer_memory<B> take_layer_memory(arena<Space>& a, layer_shape const& shape, index_t tokens, int num_kept,
                                  int num_rows, common_memory<B> const* common = nullptr,
                                  int num_restored = 0) {
  using scalar = typename B::scalar;
  using real = typename B::real;
  layer_memory<B> m;
  int const shared = common != nullptr ? num_restored : 0;
  for (int i = 0; i < num_kept; ++i)
    m.kept.push_back(i < shared ? common->restored[std::size_t(i)]
                                : a.template matrix<real>(tokens, shape.hidden));
  for (int i = 0; i < num_rows; ++i) m.rows.push_back(a.template vector<real>(tokens));
  m.qkv = a.template spread_matrix<scalar>(tokens, shape.qkv_columns());
  if (shape.normalized_columns() > 0) {
    m.heads = a.template spread_matrix<scalar>(tokens, shape.normalized_columns());
    m.head_rstd = a.template matrix<real>(tokens, shape.attention.heads + 2 * shape.attention.kv_heads);
  }
  m.attended = a.template spread_matrix<scalar>(tokens, shape.query_columns());
  m.log_sum_exp = a.template matrix<real>(tokens, shape.attention.heads);
  m.gate_up =
      common != nullptr ? common->gate_up : a.template spread_matrix<scalar>(tokens, 2 * shape.intermediate);
  return m;
}

template <backend B, class Space = typename B::space>
layer_scratch<B> take_layer_scratch(arena<Space>& a, layer_shape const& shape, index_t tokens, int num_wiring,
                                    bool backward) {
  using scalar = typename B::scalar;
  layer_scratch<B> s;
  for (int i = 0; i < num_wiring; ++i)
    s.wiring.push_back(a.template matrix<typename B::real>(tokens, shape.hidden));
  if (!one_format<B>) s.operand = a.template spread_matrix<scalar>(tokens, shape.hidden);
  s.activated = a.template spread_matrix<scalar>(tokens, shape.intermediate);
  if (!backward) return s;
  if (!one_format<B>) s.gradient = a.template spread_matrix<scalar>(tokens, shape.hidden);
  s.dactivated = a.template spread_matrix<scalar>(tokens, shape.intermediate);
  s.dgate_up = a.template spread_matrix<scalar>(tokens, 2 * shape.intermediate);
  s.dqkv = a.template spread_matrix<scalar>(tokens, shape.qkv_columns());
  if (shape.normalized_columns() > 0)
    s.dheads = a.template spread_matrix<scalar>(tokens, shape.normalized_columns());
  s.dattended = a.template spread_matrix<scalar>(tokens, shape.query_columns());
  return s;
}

}  // namespace accrete::inline v0::model
