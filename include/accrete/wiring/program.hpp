#pragma once
#include <array>
#include <cstddef>
#include <type_traits>

#include "accrete/wiring/expression.hpp"
#include "accrete/wiring/values.hpp"

namespace accrete::inline v0::wiring {

/// One yes or no for each value of a program.
template <int Size>
struct flags {
  std::array<bool, std::size_t(Size)> set{};
  constexpr bool& operator[](int i) { return set[std::size_t(i)]; }
  constexpr bool operator[](int i) const { return set[std::size_t(i)]; }
  [[nodiscard]] constexpr int count() const {
    int n = 0;
    for (bool const one : set) n += one;
    return n;
  }
};

/// What a backward needs of the forward.
template <int Size>
struct requirements {
  flags<Size> gradient{};  ///< the gradient passes here
  flags<Size> keep{};      ///< memory from forward to backward
  flags<Size> rebuild{};   ///< made again in the backward from kept values and the layer's inputs
  flags<Size> run{};       ///< computed in the forward
};

/// What can be made again from less than `requirements` keeps.
template <int Size>
struct requirements_again {
  flags<Size> restore{};  ///< kept values
  flags<Size> run{};      ///< computed for them, themselves included
};

/// An equation as data: unique values in evaluation order, read once from the type. Everything else (forward,
/// backward, memory, fusion, text) is a plain constexpr loop over `code`.
template <class Equation>
struct program {
  using root = typename detail::as_outputs<Equation>::type;
  using values = decltype(detail::add_values(list<>{}, typename root::operands{}));
  template <int I>
  using value = decltype(detail::element<I>(values{}));

  static constexpr int size = values::size;
  static constexpr int num_outputs = root::operands::size;
  static constexpr auto code = detail::instructions_of(values{});
  static constexpr instruction at(int i) { return code[std::size_t(i)]; }

  /// Value number of each output stream.
  static constexpr auto outs = []<class... E>(list<E...>) {
    return std::array{detail::index_of<E>(values{})...};
  }(typename root::operands{});

  static constexpr int count(op wanted) {
    int n = 0;
    for (auto const& c : code) n += c.code == wanted;
    return n;
  }
  static constexpr int num_gains = count(op::norm);
  static constexpr int num_rows =
      count(op::norm) + count(op::unit);  ///< per-token statistics, 4 or 8 bytes each
  static constexpr int num_inputs = [] {
    int n = 0;
    for (auto const& c : code) n = c.stream + 1 > n ? c.stream + 1 : n;
    return n;
  }();
  static constexpr bool reads_every_stream = count(op::input) == num_inputs;
  template <class Sublayer>
  static constexpr int num_calls = []<class... V>(list<V...>) {
    auto calls = []<class E>(E) {
      if constexpr (E::code == op::apply) {
        return int(std::is_same_v<typename E::sublayer, Sublayer>);
      } else {
        return 0;
      }
    };
    return (0 + ... + calls(V{}));
  }(values{});
  static constexpr bool calls_once =
      num_calls<any_sublayer> <= 1 && num_calls<attention> <= 1 && num_calls<feed_forward> <= 1;
  static_assert(
      calls_once,
      "[accrete] norm_placement: a sublayer is called with two different arguments, so its weights would "
      "be used twice. Name the shared value and use it in both places. See docs/policies.md#norm_placement");

  static constexpr flags<size> calls_attention = []<class... V>(list<V...>) {
    auto calls = []<class E>(E) {
      if constexpr (E::code == op::apply) {
        return std::is_same_v<typename E::sublayer, attention>;
      } else {
        return false;
      }
    };
    return flags<size>{{calls(V{})...}};
  }(values{});

  /// Values an instruction reads in the forward. A straight-through's second operand only lends its gradient.
  static constexpr bool reads(int i, int v) {
    auto const c = at(i);
    return c.a == v || (c.b == v && c.code != op::through);
  }
  /// Whether value i follows from those that are there, without a sublayer.
  static constexpr bool made_cheaply(int i, flags<size> const& available) {
    auto const c = at(i);
    if (c.code == op::apply || c.code == op::input) return false;
    return available[c.a] && (c.b < 0 || c.code == op::through || available[c.b]);
  }
  static constexpr bool is_output(int v) {
    for (int o : outs)
      if (o == v) return true;
    return false;
  }

  static constexpr requirements<size> needs = [] {
    requirements<size> r{};
    flags<size> wanted{};  // the backward reads the value itself

    for (int o : outs) r.gradient[o] = r.run[o] = true;
    for (int i = size - 1; i >= 0; --i) {
      if (!r.gradient[i]) continue;
      auto const c = at(i);
      if (c.a >= 0 && c.code != op::through) r.gradient[c.a] = true;
      if (c.b >= 0) r.gradient[c.b] = true;
      if (c.code == op::apply || c.row >= 0) wanted[c.a] = true;
    }

    // Cheap values are made again rather than kept; the rest of what is wanted is kept.
    flags<size> available{};
    for (int i = 0; i < size; ++i) {
      auto const c = at(i);
      bool const from_others = made_cheaply(i, available);
      if (c.code == op::input || from_others) {
        available[i] = true;
      } else if (wanted[i]) {
        available[i] = r.keep[i] = true;
      }
      r.rebuild[i] = from_others;
    }
    for (int i = size - 1; i >= 0; --i) {  // what a rebuilt value is made of is wanted as well
      if (!wanted[i] || !r.rebuild[i]) continue;
      for (int v = 0; v < i; ++v)
        if (reads(i, v)) wanted[v] = true;
    }
    for (int i = 0; i < size; ++i) {
      r.rebuild[i] = r.rebuild[i] && wanted[i];
      if (at(i).code == op::input) r.keep[i] = wanted[i];
    }

    // Where only a surrogate's gradient asks for it, a kept value is computed as well, and so is what keeps
    // something of its own for the backward: a norm its statistic, a sublayer its activations.
    for (int i = size - 1; i >= 0; --i) {
      bool const remembers = at(i).row >= 0 || at(i).code == op::apply;
      if (r.keep[i] || (remembers && r.gradient[i])) r.run[i] = true;
      if (!r.run[i]) continue;
      for (int v = 0; v < i; ++v)
        if (reads(i, v)) r.run[v] = true;
    }
    return r;
  }();
  static constexpr bool runs(int v) { return needs.run[v]; }
  static constexpr bool kept(int v) { return needs.keep[v]; }
  static constexpr bool rebuilt(int v) { return needs.rebuild[v]; }
  static constexpr bool has_gradient(int v) { return needs.gradient[v]; }

  /// What can be made again from kept values and the layer's inputs where attention has kept what its last
  /// product reads: at the cost of that product, and of no other sublayer.
  static constexpr requirements_again<size> again = [] {
    requirements_again<size> r{};
    flags<size> available{};
    for (int i = 0; i < size; ++i) {
      auto const c = at(i);
      bool const made = calls_attention[i] || made_cheaply(i, available);
      r.restore[i] = kept(i) && made;
      available[i] = made || kept(i) || c.code == op::input;
    }
    r.run = r.restore;
    for (int i = size - 1; i >= 0; --i) {
      if (!r.run[i] || at(i).code == op::apply) continue;
      for (int v = 0; v < i; ++v)
        if (reads(i, v) && at(v).code != op::input && !(kept(v) && !r.restore[v])) r.run[v] = true;
    }
    return r;
  }();
  /// Kept values that need no memory of the layer's own where they are made again.
  static constexpr bool restored(int v) { return again.restore[v]; }
  static constexpr bool runs_again(int v) { return again.run[v]; }
  static constexpr int num_restored = again.restore.count();

  /// Whether the gradient passes to input `stream`: not where the equation only takes its value, or skips it.
  static constexpr bool reaches(int stream) {
    for (int v = 0; v < size; ++v)
      if (at(v).code == op::input && at(v).stream == stream) return has_gradient(v);
    return false;
  }

  /// [T, D] tensors kept from forward to backward, the layer's inputs among them.
  static constexpr int num_kept = [] {
    int n = 0;
    for (int v = 0; v < size; ++v) n += kept(v);
    return n;
  }();

  /// Whether only sublayers read a value, which begin by multiplying it with a matrix: a norm, say, under pre-norm.
  /// It may then be held in the format that matrices are multiplied in.
  static constexpr bool is_narrow(int v) {
    if (at(v).row < 0 || is_output(v)) return false;
    for (int i = v + 1; i < size; ++i)
      if ((at(i).a == v || at(i).b == v) && at(i).code != op::apply) return false;
    return true;
  }

  /// norm(a + b) in one pass: the first norm that reads the sum is made where the sum is. -1: none.
  static constexpr int fused_norm_of(int i) {
    if (at(i).code != op::add) return -1;
    for (int j = i + 1; j < size; ++j)
      if (at(j).code == op::norm && at(j).a == i && runs(j)) return j;
    return -1;
  }
  static constexpr bool is_fused(int j) { return at(j).code == op::norm && fused_norm_of(at(j).a) == j; }
  static constexpr int num_fused = [] {
    int n = 0;
    for (int j = 0; j < size; ++j) n += is_fused(j);
    return n;
  }();

  /// Bytes kept from forward to backward by the equation itself, for `tokens` rows of `width` elements.
  static constexpr std::size_t kept_bytes(std::size_t tokens, std::size_t width, std::size_t element,
                                          std::size_t statistic) {
    return tokens * (std::size_t(num_kept) * width * element + std::size_t(num_rows) * statistic);
  }
};

}  // namespace accrete::inline v0::wiring
