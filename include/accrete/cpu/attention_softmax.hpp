#pragma once
#include <algorithm>

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
  /// scale p (dw - mean), which may lie over the scores and dw. In one pass: two of them cost a tenth more.
  template <class T>
  void backward(C scale, C normalizer, C mean, C const* dw, T* p, T* dscore) const {
    for (index_t i = 0; i < seen; i += lane_count) {
      lanes_of<C> const w = (scale * read(score, i) - normalizer).exp();
      lanes_of<C> const slope = scale * w * (read(dw, i) - mean);
      store(w, p, i);
      store(slope, dscore, i);
    }
    std::fill(p + seen, p + all, T(0));
    std::fill(dscore + seen, dscore + all, T(0));
  }

 private:
  /// 16 numbers of a row from `i` on; zeros past its end.
  [[nodiscard]] lanes_of<C> read(C const* row, index_t i) const {
    if (all - i >= lane_count) return Eigen::Map<lanes_of<C> const>(row + i);
    lanes_of<C> x = lanes_of<C>::Zero();
    std::copy(row + i, row + all, x.data());
    return x;
  }
  /// row [i, i + 16) = x, up to its end.
  template <class T>
  void store(lanes_of<C> const& x, T* row, index_t i) const {
    if (all - i >= lane_count) return store_lanes<C>(x, row + i);
    for (index_t j = 0; j < all - i; ++j) put(row[i + j], x[j]);
  }
};

}  // namespace accrete::inline v0::cpu::detail
