#pragma once
#include <algorithm>
#include <cmath>

#include "accrete/core/view.hpp"
#include "accrete/cpu/array.hpp"
#include "accrete/cpu/lanes.hpp"

/// Attention's softmax over a row of a block of scores, of which a query sees the first few: what it does not
/// see has weight 0. A row lies in the first cache.
namespace accrete::inline v0::cpu::detail {

/// A row of `all` scores, the first `seen` of which count.
template <class C>
struct score_row {
  C* score;
  index_t seen, all;

  /// The scores that are seen and as many after them as fill vector registers: loops over a few more are
  /// faster than over the rest one by one.
  [[nodiscard]] index_t whole_lanes() const {
    return (std::min)(all, (seen + lane_count - 1) / lane_count * lane_count);
  }

  /// The largest score of those that are seen, one at least. Whether NaN passes by is open: it shows in the
  /// sum.
  [[nodiscard]] C largest() const { return array(score, seen).maxCoeff(); }

  /// weight [all] = exp(scale score - origin), in whatever format; returns their sum as it was before
  /// rounding. The scores are used up; `weight` may lie over them.
  template <class T>
  C weigh(C scale, C origin, T* weight) const {
    index_t const some = whole_lanes();
    array(score, some) = (scale * array(score, some) - origin).exp();
    std::fill(score + seen, score + some, C(0));
    C const sum = store_and_sum(score, some, weight);
    std::fill(weight + some, weight + all, T(0));
    return sum;
  }

  /// With dw [all] the gradients of the weights: p [all] = exp(scale score - normalizer) and dscore [all] =
  /// scale p (dw - mean), which may lie over the scores and dw.
  template <class T>
  void backward(C scale, C normalizer, C mean, C const* dw, T* p, T* dscore) const {
    C const* const s = score;  // what is stored may be this very member, for all the compiler knows
    index_t const end = whole_lanes(), full = end / lane_count * lane_count;
    for (index_t i = 0; i < full; i += lane_count) {
      lanes_of<C> const w = (scale * load_lanes<lanes_of<C>>(s + i, lane_count) - normalizer).exp();
      lanes_of<C> const slope = scale * w * (load_lanes<lanes_of<C>>(dw + i, lane_count) - mean);
      store_lanes<C>(w, p + i);
      store_lanes<C>(slope, dscore + i);
    }
    for (index_t i = full; i < end; ++i) {
      C const w = std::exp(scale * s[i] - normalizer), slope = scale * w * (dw[i] - mean);
      put(p[i], w);
      put(dscore[i], slope);
    }
    std::fill(p + seen, p + all, T(0));
    std::fill(dscore + seen, dscore + all, T(0));
  }
};

}  // namespace accrete::inline v0::cpu::detail
