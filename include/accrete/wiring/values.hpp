#pragma once
#include <array>
#include <type_traits>

#include "accrete/wiring/expression.hpp"

namespace accrete::inline v0::wiring {

/// An instruction: what is computed from which earlier values. Its place in the array is the value's number.
struct instruction {
  op code{};
  int a = -1;       ///< first operand
  int b = -1;       ///< second operand (add, through)
  int gain = -1;    ///< norm: number of its gain
  int row = -1;     ///< norm, unit: number of its per-token statistic
  int stream = -1;  ///< input: which stream
};

namespace detail {

template <class... L, class E>
constexpr bool holds(list<L...>, E) {
  return (std::is_same_v<L, E> || ...);
}

// Adds every expression of the second list to the first one, operands before users. An expression that is there
// already is the same value: a shared subexpression needs no word, it is just written (or named) twice.
template <class... L>
constexpr list<L...> add_values(list<L...> known, list<>) {
  return known;
}
template <class... L, class E, class... Rest>
constexpr auto add_values(list<L...> known, list<E, Rest...>) {
  constexpr bool at_root_only = !requires {
    E::code;
  };
  static_assert(
      !at_root_only,
      "[accrete] norm_placement: streams(...) and by_depth<...>(...) stand at the root of an equation "
      "only. See docs/policies.md#norm_placement");
  if constexpr (at_root_only || holds(list<L...>{}, E{})) {
    return add_values(known, list<Rest...>{});
  } else {
    constexpr auto with_operands = add_values(list<L...>{}, typename E::operands{});
    constexpr auto with_value = []<class... M>(list<M...>) { return list<M..., E>{}; }(with_operands);
    return add_values(with_value, list<Rest...>{});
  }
}

template <class E, class... L>
constexpr int index_of(list<L...>) {
  int at = -1;
  int i = 0;
  ((std::is_same_v<L, E> ? void(at = i) : void(), ++i), ...);
  return at;
}

template <int I, class E, class... Rest>
constexpr auto element(list<E, Rest...>) {
  if constexpr (I == 0) {
    return E{};
  } else {
    return element<I - 1>(list<Rest...>{});
  }
}

template <class E>
struct as_outputs {
  using type = outputs<E>;
};
template <class... E>
struct as_outputs<outputs<E...>> {
  using type = outputs<E...>;
};

template <class... V>
constexpr auto instructions_of(list<V...> values) {
  std::array<instruction, sizeof...(V)> code{};
  int next = 0;
  int gains = 0;
  int rows = 0;
  auto read = [&]<class E>(E) {
    instruction& c = code[std::size_t(next++)];
    c.code = E::code;
    [&]<class... O>(list<O...>) {
      int k = 0;
      ((void)((k++ == 0 ? c.a : c.b) = index_of<O>(values)), ...);
    }(typename E::operands{});
    if (c.code == op::norm) c.gain = gains++;
    if (c.code == op::norm || c.code == op::unit) c.row = rows++;
    if constexpr (E::code == op::input) c.stream = E::index;
  };
  (read(V{}), ...);
  return code;
}

}  // namespace detail
}  // namespace accrete::inline v0::wiring
