#pragma once
#include <array>
#include <concepts>
#include <cstddef>
#include <utility>

#include "accrete/backend/types.hpp"
#include "accrete/wiring/memory_plan.hpp"
#include "accrete/wiring/program.hpp"

namespace accrete::inline v0::wiring {

/// The buffers one run of a program works in, no two of which overlap. Matrix is [T, D], Row is [T].
///   in, out:  one per stream. In a backward `in` still holds the forward's inputs.
///   kept:     forward_plan_of<P, training>.num_kept buffers, this layer's own; the first P::num_restored may
///             be shared, see restore()
///   rows:     P::num_rows, this layer's own
///   scratch:  num_scratch<P> buffers, shared by everybody
template <class P, class Matrix, class Row>
struct frame {
  std::array<Matrix, std::size_t(P::num_inputs)> in{};
  std::array<Matrix, std::size_t(P::num_outputs)> out{};
  Matrix const* kept = nullptr;
  Row const* rows = nullptr;
  Matrix const* scratch = nullptr;
};

/// Looks at nothing: what a forward shows its values to unless it is asked otherwise. Costs nothing.
struct no_look {
  template <class... A>
  constexpr void operator()(A const&...) const {}
};

/// Runs a program over a set of kernels. `Kernels` provides
///   add(a, b, out)  scale(c, a, out)  copy(a, out)  accumulate(c, a, out)
///   norm(gain, a, out, row)  add_norm(a, b, sum, gain, out, row)  norm_backward(gain, a, row, d, da, store)
///   unit(a, out, row)        unit_backward(a, row, d, da, store)
///   apply<Sublayer>(a, out)  apply_backward<Sublayer>(a, d, da, store)
///   attention_again(out)     only for restore()
///   zero(out)                only for programs with an input that no gradient reaches
/// and knows nothing of equations; this class knows nothing of backends. Only `scale` is asked to work in
/// place. Where it has narrow(matrix), that tells how a buffer holds a value that only sublayers read: norm,
/// unit and add_norm are then asked to write such a one, apply and apply_backward to read it.
template <class P, class Kernels, class Matrix, class Row>
class execution {
 public:
  execution(Kernels& kernels, site where, frame<P, Matrix, Row> const& buffers)
      : k_(kernels), site_(where), f_(buffers) {}

  /// `look(number, matrix)` sees each value of the program that is not narrow when it has just been made, before
  /// its buffer is used again; the number is a std::integral_constant.
  template <purpose For, class Look = no_look>
  void forward(Look&& look = {}) {
    each_value([&](auto i) {
      forward_one<For, i>();
      if constexpr (!P::is_fused(i) && !held_narrow(i) && (P::runs(i) || P::at(i).code == op::input))
        look(i, value<For>(i));
      if constexpr (constexpr int n = P::fused_norm_of(i); n >= 0)  // made in the same pass
        if constexpr (!held_narrow(n)) look(std::integral_constant<int, n>{}, value<For>(n));
    });
    for (std::size_t s = 0; s < std::size_t(P::num_outputs);
         ++s) {  // an output that is kept, an input, or two outputs
      home const h = forward_plan_of<P, For>.value[std::size_t(P::outs[s])];
      if (h.kind != home::output || h.index != int(s)) k_.copy(value<For>(P::outs[s]), f_.out[s]);
    }
  }

  /// Before a backward: makes the kept values again that P::restored tells, whose buffers others have used
  /// since the forward. The same kernels on the same numbers, so the same bits.
  void restore() {
    each_value([&](auto i) {
      if constexpr (P::runs_again(i) && P::at(i).code == op::apply)
        k_.attention_again(value<purpose::training>(i));
      else if constexpr (P::runs_again(i))
        compute<i>(value<purpose::training>(P::at(i).a), value<purpose::training>(second_read(i)),
                   value<purpose::training>(i));
    });
  }

  /// `incoming`: gradients of the outputs, overwritten. `outgoing`: gradients of the inputs, replaced.
  void backward(std::array<Matrix, std::size_t(P::num_outputs)> const& incoming,
                std::array<Matrix, std::size_t(P::num_inputs)> const& outgoing) {
    pass_back(incoming, outgoing);
    if constexpr (backward_plan_of<P>.in_place) k_.copy(incoming[0], outgoing[0]);
  }
  /// The same in one buffer, which saves that copy.
  void backward(std::array<Matrix, 1> const& both) requires(backward_plan_of<P>.in_place) {
    pass_back(both, both);
  }

 private:
  void pass_back(std::array<Matrix, std::size_t(P::num_outputs)> const& incoming,
                 std::array<Matrix, std::size_t(P::num_inputs)> const& outgoing) {
    incoming_ = &incoming;
    outgoing_ = &outgoing;
    [&]<int... S>(std::integer_sequence<int, S...>) {
      (clear_unreached<S>(), ...);
    }
    (std::make_integer_sequence<int, P::num_inputs>{});
    for (std::size_t s = 0; s < std::size_t(P::num_outputs); ++s) {  // gradients that arrive away from home
      int const o = P::outs[s];
      home const h = backward_plan_of<P>.gradient[std::size_t(o)];
      if (h.kind == home::input && first_stream_of(o) == int(s))
        k_.copy(incoming[s], gradient(o));
      else if (first_stream_of(o) != int(s))
        k_.accumulate(1.0, incoming[s], gradient(o));
    }
    [&]<int... K>(std::integer_sequence<int, K...>) {
      (backward_one<K>(), ...);
    }
    (std::make_integer_sequence<int, backward_plan_of<P>.num_steps>{});
  }

  template <class F>
  static void each_value(F&& visit) {
    [&]<int... I>(std::integer_sequence<int, I...>) {
      (visit(std::integral_constant<int, I>{}), ...);
    }
    (std::make_integer_sequence<int, P::size>{});
  }
  /// The other value an instruction reads, or the first again: a surrogate may have no value at all.
  static constexpr int second_read(int i) {
    auto const c = P::at(i);
    return c.code == op::add ? c.b : c.a;
  }
  static constexpr int first_stream_of(int o) {
    for (int s = 0; s < P::num_outputs; ++s)
      if (P::outs[std::size_t(s)] == o) return s;
    return -1;
  }

  Matrix const& at(home h) const {
    switch (h.kind) {
      case home::input:
        return f_.in[std::size_t(h.index)];
      case home::output:
        return f_.out[std::size_t(h.index)];
      case home::kept:
        return f_.kept[h.index];
      default:
        return f_.scratch[h.index];
    }
  }
  template <purpose For>
  Matrix const& value(int v) const {
    return at(forward_plan_of<P, For>.value[std::size_t(v)]);
  }
  static constexpr bool held_narrow(int v) {
    return requires(Kernels & k, Matrix m) { k.narrow(m); } && P::is_narrow(v);
  }
  /// The buffer of value V as what it holds.
  template <int V>
  auto holding(Matrix const& buffer) const {
    if constexpr (held_narrow(V))
      return k_.narrow(buffer);
    else
      return buffer;
  }
  /// A value as the backward finds it: rebuilt, kept, or an input.
  Matrix const& past(int v) const {
    home const again = backward_plan_of<P>.value[std::size_t(v)];
    return again.kind == home::scratch ? f_.scratch[again.index] : value<purpose::training>(v);
  }
  Matrix const& gradient(int v) const {
    home const h = backward_plan_of<P>.gradient[std::size_t(v)];
    if (h.kind == home::output) return (*incoming_)[std::size_t(h.index)];
    if (h.kind == home::input) return (*outgoing_)[std::size_t(h.index)];
    return f_.scratch[h.index];
  }

  template <purpose For, int I>
  void forward_one() {
    constexpr auto c = P::at(I);
    if constexpr (c.code != op::input && P::runs(I) && !P::is_fused(I)) {
      if constexpr (constexpr int n = P::fused_norm_of(I); n >= 0) {
        k_.add_norm(value<For>(c.a), value<For>(c.b), value<For>(I), P::at(n).gain, holding<n>(value<For>(n)),
                    f_.rows[P::at(n).row]);
      } else {
        compute<I>(value<For>(c.a), value<For>(second_read(I)), value<For>(I));
      }
    }
  }

  template <int Stream>
  void clear_unreached() {
    if constexpr (!P::reaches(Stream)) k_.zero((*outgoing_)[std::size_t(Stream)]);
  }

  template <int I>
  void compute(Matrix const& a, Matrix const& b, Matrix const& out) {
    constexpr auto c = P::at(I);
    using node = typename P::template value<I>;
    if constexpr (c.code == op::add) k_.add(a, b, out);
    if constexpr (c.code == op::scale) k_.scale(node::constant::at(site_), a, out);
    if constexpr (c.code == op::through) k_.copy(a, out);
    if constexpr (c.code == op::norm) k_.norm(c.gain, a, holding<I>(out), f_.rows[c.row]);
    if constexpr (c.code == op::unit) k_.unit(a, holding<I>(out), f_.rows[c.row]);
    if constexpr (c.code == op::apply) k_.template apply<typename node::sublayer>(holding<c.a>(a), out);
  }

  template <int K>
  void backward_one() {
    constexpr backward_step step = backward_plan_of<P>.steps[std::size_t(K)];
    constexpr auto c = P::at(step.value);
    using node = typename P::template value<step.value>;
    if constexpr (step.rebuild) {
      compute<step.value>(past(c.a), past(second_read(step.value)), past(step.value));
    } else {
      Matrix const& d = gradient(step.value);
      constexpr store how = step.to_a == flow::add ? store::add : store::replace;
      if constexpr (c.code == op::add || c.code == op::through) {
        pass<step.to_b>(d, c.b);
        pass<step.to_a>(d, c.a);
      } else if constexpr (c.code == op::scale) {
        if constexpr (step.to_a == flow::add)
          k_.accumulate(node::constant::at(site_), d, gradient(c.a));
        else
          k_.scale(node::constant::at(site_), d, gradient(c.a));
      } else if constexpr (c.code == op::norm) {
        k_.norm_backward(c.gain, past(c.a), f_.rows[c.row], d, gradient(c.a), how);
      } else if constexpr (c.code == op::unit) {
        k_.unit_backward(past(c.a), f_.rows[c.row], d, gradient(c.a), how);
      } else {
        k_.template apply_backward<typename node::sublayer>(holding<c.a>(past(c.a)), d, gradient(c.a), how);
      }
    }
  }

  template <flow To>
  void pass(Matrix const& d, int operand) {
    if constexpr (To == flow::replace) k_.copy(d, gradient(operand));
    if constexpr (To == flow::add) k_.accumulate(1.0, d, gradient(operand));
  }

  Kernels& k_;
  site site_;
  frame<P, Matrix, Row> f_;
  std::array<Matrix, std::size_t(P::num_outputs)> const* incoming_ = nullptr;
  std::array<Matrix, std::size_t(P::num_inputs)> const* outgoing_ = nullptr;
};

}  // namespace accrete::inline v0::wiring
