#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "accrete/wiring/execute.hpp"
#include "accrete/wiring/memory_plan.hpp"
#include "accrete/wiring/program.hpp"
#include "support/gradient.hpp"
#include "support/toy_kernels.hpp"

/// One program run two ways over toy kernels: by the executor, in exactly as many buffers as it asks for and
/// with all others poisoned, and by a plain interpreter that keeps everything and shares nothing.
namespace test {

namespace wiring = accrete::wiring;

/// Everything a backward gives.
struct gradients {
  std::vector<numbers> inputs, gains;
  numbers attn, mlp;
};

inline std::vector<buffer> addresses(std::vector<numbers>& v) {
  std::vector<buffer> a;
  for (numbers& n : v) a.push_back(&n);
  return a;
}
inline void fill(std::vector<numbers>& v, double value) {
  for (numbers& n : v) std::fill(n.begin(), n.end(), value);
}
inline std::vector<numbers> rows_of(int count, std::size_t length, double value) {
  return std::vector<numbers>(std::size_t(count), numbers(length, value));
}

/// The largest |a - b| over the largest |b|; NaN counts as infinite.
inline double relative_difference(numbers const& a, numbers const& b) {
  double off = 0, size = 1e-30;
  for (std::size_t i = 0; i < b.size(); ++i) {
    double const d = std::abs(a.at(i) - b[i]);
    off = d <= off ? off : (d > off ? d : INFINITY);
    size = std::max(size, std::abs(b[i]));
  }
  return off / std::max(size, 1.0);
}
inline double relative_difference(gradients const& a, gradients const& b) {
  double worst = std::max(relative_difference(a.attn, b.attn), relative_difference(a.mlp, b.mlp));
  for (std::size_t s = 0; s < b.inputs.size(); ++s)
    worst = std::max(worst, relative_difference(a.inputs.at(s), b.inputs[s]));
  for (std::size_t g = 0; g < b.gains.size(); ++g)
    worst = std::max(worst, relative_difference(a.gains.at(g), b.gains[g]));
  return worst;
}
inline bool same_bits(gradients const& a, gradients const& b) {
  bool same = same_bits(a.attn, b.attn) && same_bits(a.mlp, b.mlp) && a.inputs.size() == b.inputs.size() &&
              a.gains.size() == b.gains.size();
  for (std::size_t s = 0; same && s < b.inputs.size(); ++s) same = same_bits(a.inputs[s], b.inputs[s]);
  for (std::size_t g = 0; same && g < b.gains.size(); ++g) same = same_bits(a.gains[g], b.gains[g]);
  return same;
}

template <class P>
class trial {
  using plan = wiring::forward_plan<P, wiring::purpose::training>;
  static constexpr int num_kept = wiring::forward_plan_of<P, wiring::purpose::training>.num_kept;
  static constexpr int num_scratch = wiring::num_scratch<P>;

 public:
  explicit trial(wiring::site where = {3, 12}) : kernels(P::num_gains), where_(where) {
    for (int s = 0; s < P::num_inputs; ++s) in.push_back(random_numbers(elements, "in " + std::to_string(s)));
    for (int s = 0; s < P::num_outputs; ++s)
      upstream.push_back(random_numbers(elements, "upstream " + std::to_string(s)));
  }

  template <wiring::purpose For>
  std::vector<numbers> forward() {
    fill(kept_, poison);
    fill(rows_, poison);
    fill(scratch_, poison);
    auto out = rows_of(P::num_outputs, elements, poison);
    std::vector<numbers> const before = in;
    execution(out).template forward<For>();
    for (std::size_t s = 0; s < in.size(); ++s) kernels.broken_promises += !same_bits(in[s], before[s]);
    fill(scratch_, poison);  // `out` is a copy as well: nothing but inputs, kept buffers and rows goes on
    return out;
  }

  gradients backward() {
    return backward_by([this](auto& run, std::vector<numbers>& incoming, std::vector<numbers>& outgoing) {
      run.backward(array_of<P::num_outputs>(incoming), array_of<P::num_inputs>(outgoing));
    });
  }
  /// The same in the buffer of the output's gradient alone, where the plan says that this can be.
  gradients backward_in_place() requires(wiring::backward_plan_of<P>.in_place) {
    return backward_by([this](auto& run, std::vector<numbers>& incoming, std::vector<numbers>& outgoing) {
      run.backward(array_of<1>(incoming));
      outgoing = incoming;
    });
  }

  /// The same where others have used the buffers of what can be restored.
  gradients backward_of_restored() {
    for (int k = 0; k < P::num_restored; ++k) kept_[std::size_t(k)].assign(elements, poison);
    auto out = rows_of(P::num_outputs, elements, poison);
    execution(out).restore();
    fill(scratch_, poison);
    return backward();
  }

  double loss() {
    auto const out = forward<wiring::purpose::training>();
    double sum = 0;
    for (std::size_t s = 0; s < out.size(); ++s)
      for (std::size_t i = 0; i < elements; ++i) sum += out[s][i] * upstream[s][i];
    return sum;
  }

  /// The largest relative error of any gradient against central differences: inputs, weights, every gain.
  double gradient_error() {
    loss();
    gradients const g = backward();
    double worst = 0;
    auto compare = [&](numbers& parameter, numbers const& analytic) {
      accrete::index_t const n = accrete::index_t(parameter.size());
      double const e =
          relative_gradient_error(accrete::view<double, 1>(parameter.data(), {n}),
                                  accrete::view<double const, 1>(analytic.data(), {n}), [&] { return loss(); });
      worst = e <= worst ? worst : (e > worst ? e : INFINITY);
    };
    for (std::size_t s = 0; s < in.size(); ++s) compare(in[s], g.inputs[s]);
    for (std::size_t k = 0; k < g.gains.size(); ++k) compare(kernels.gains[k], g.gains[k]);
    compare(kernels.attn.weight, g.attn);
    compare(kernels.mlp.weight, g.mlp);
    return worst;
  }

  /// The plain interpreter. It knows the instructions, and nothing of kept, rebuilt, shared or fused.
  std::pair<std::vector<numbers>, gradients> interpret() {
    toy_kernels k(P::num_gains);
    auto value = rows_of(P::size, elements, 0.0);
    auto row = rows_of(P::size, std::size_t(toy_kernels::tokens), 0.0);
    auto gradient = rows_of(P::size, elements, 0.0);
    auto at = [](std::vector<numbers>& v, int i) { return i < 0 ? nullptr : &v[std::size_t(i)]; };

    each([&]<class Node>(int i, Node) {
      auto const c = P::at(i);
      buffer const a = at(value, c.a), out = at(value, i);
      if constexpr (Node::code == wiring::op::input) *out = in[std::size_t(c.stream)];
      if constexpr (Node::code == wiring::op::add) k.add(a, at(value, c.b), out);
      if constexpr (Node::code == wiring::op::scale) k.scale(Node::constant::at(where_), a, out);
      if constexpr (Node::code == wiring::op::through) k.copy(a, out);
      if constexpr (Node::code == wiring::op::norm) k.norm(c.gain, a, out, at(row, i));
      if constexpr (Node::code == wiring::op::unit) k.unit(a, out, at(row, i));
      if constexpr (Node::code == wiring::op::apply) k.template apply<typename Node::sublayer>(a, out);
    });
    std::vector<numbers> out;
    for (int s = 0; s < P::num_outputs; ++s) {
      int const o = P::outs[std::size_t(s)];
      out.push_back(value[std::size_t(o)]);
      k.accumulate(1.0, &upstream[std::size_t(s)], at(gradient, o));
    }

    for (int i = P::size - 1; i >= 0; --i) {
      auto const c = P::at(i);
      buffer const a = at(value, c.a), d = at(gradient, i), da = at(gradient, c.a), db = at(gradient, c.b);
      each([&]<class Node>(int j, Node) {
        if (j != i) return;
        constexpr auto add = accrete::store::add;
        if constexpr (Node::code == wiring::op::add) k.accumulate(1.0, d, da);
        if constexpr (Node::code == wiring::op::add || Node::code == wiring::op::through)
          k.accumulate(1.0, d, db);
        if constexpr (Node::code == wiring::op::scale) k.accumulate(Node::constant::at(where_), d, da);
        if constexpr (Node::code == wiring::op::norm) k.norm_backward(c.gain, a, at(row, i), d, da, add);
        if constexpr (Node::code == wiring::op::unit) k.unit_backward(a, at(row, i), d, da, add);
        if constexpr (Node::code == wiring::op::apply)
          k.template apply_backward<typename Node::sublayer>(a, d, da, add);
      });
    }
    gradients g{rows_of(P::num_inputs, elements, 0.0), k.gain_gradients, k.attn.gradient, k.mlp.gradient};
    for (int i = 0; i < P::size; ++i)
      if (P::at(i).code == wiring::op::input) g.inputs[std::size_t(P::at(i).stream)] = gradient[std::size_t(i)];
    return {out, g};
  }

  toy_kernels kernels;
  std::vector<numbers> in, upstream;

 private:
  static constexpr std::size_t elements = toy_kernels::elements;

  template <class Run>
  gradients backward_by(Run&& run) {
    kernels.clear_gradients();
    auto incoming = upstream;
    auto outgoing = rows_of(P::num_inputs, elements, poison);
    auto out = rows_of(P::num_outputs, elements, poison);
    std::vector<numbers> const before = in, kept_before = kept_;
    auto executed = execution(out);
    run(executed, incoming, outgoing);
    for (std::size_t s = 0; s < in.size(); ++s) kernels.broken_promises += !same_bits(in[s], before[s]);
    for (std::size_t k = 0; k < kept_.size(); ++k)
      kernels.broken_promises += !same_bits(kept_[k], kept_before[k]);
    return {outgoing, kernels.gain_gradients, kernels.attn.gradient, kernels.mlp.gradient};
  }

  template <int N>
  static std::array<buffer, std::size_t(N)> array_of(std::vector<numbers>& v) {
    std::array<buffer, std::size_t(N)> a{};
    for (std::size_t i = 0; i < a.size(); ++i) a[i] = &v[i];
    return a;
  }
  auto execution(std::vector<numbers>& out) {
    wiring::frame<P, buffer, buffer> f;
    f.in = array_of<P::num_inputs>(in);
    f.out = array_of<P::num_outputs>(out);
    f.kept = kept_addresses_.data();
    f.rows = row_addresses_.data();
    f.scratch = scratch_addresses_.data();
    return wiring::execution<P, toy_kernels, buffer, buffer>(kernels, where_, f);
  }
  template <class F>
  static void each(F&& visit) {
    [&]<class... V>(wiring::list<V...>) {
      int i = 0;
      (visit(i++, V{}), ...);
    }(typename P::values{});
  }

  wiring::site where_;
  std::vector<numbers> kept_ = rows_of(num_kept, elements, poison);
  std::vector<numbers> rows_ = rows_of(P::num_rows, std::size_t(toy_kernels::tokens), poison);
  std::vector<numbers> scratch_ = rows_of(num_scratch, elements, poison);
  std::vector<buffer> kept_addresses_ = addresses(kept_);
  std::vector<buffer> row_addresses_ = addresses(rows_);
  std::vector<buffer> scratch_addresses_ = addresses(scratch_);
};

}  // namespace test
