#pragma once
#include <array>
#include <type_traits>
#include <utility>

#include "accrete/wiring/expression.hpp"
#include "accrete/wiring/memory_plan.hpp"
#include "accrete/wiring/program.hpp"

namespace accrete::inline v0::wiring {
namespace detail {

// The expression with `f` read as Sublayer and the input streams replaced by `in`.
template <class Sublayer, class E, class... In>
constexpr auto bind(E, list<In...> in) {
  if constexpr (E::code == op::input) {
    return element<E::index>(in);
  } else {
    return []<class... O>(list<O...>, list<In...> streams_in) {
      if constexpr (E::code == op::apply) {
        using chosen = std::conditional_t<std::is_same_v<typename E::sublayer, any_sublayer>, Sublayer,
                                          typename E::sublayer>;
        return sublayer_word<chosen>{}(bind<Sublayer>(O{}, streams_in)...);
      } else {
        return E::over(bind<Sublayer>(O{}, streams_in)...);
      }
    }(typename E::operands{}, in);
  }
}
template <class Sublayer, class... Out, class... In>
constexpr auto bind_all(list<Out...>, list<In...> in) {
  return list<decltype(bind<Sublayer>(Out{}, in))...>{};
}
template <class... Out>
constexpr outputs<Out...> outputs_of(list<Out...>) {
  return {};
}

// What makes an equation one of a sublayer or of a layer, one sentence for each way to miss it. (Named
// conditions, as a compiler that repeats the condition would print pages of types before the sentence.)
template <class P>
constexpr void check_layer() {
  constexpr int either = P::template num_calls<any_sublayer>;
  constexpr int attn_calls = P::template num_calls<attention>;
  constexpr int mlp_calls = P::template num_calls<feed_forward>;
  constexpr bool one_kind = either == 0 || attn_calls + mlp_calls == 0;
  constexpr bool any_call = either + attn_calls + mlp_calls > 0;
  constexpr bool whole_layer = either > 0 || attn_calls == mlp_calls;
  constexpr bool streams_match = P::num_outputs == P::num_inputs && P::reads_every_stream;
  static_assert(
      one_kind,
      "[accrete] norm_placement: the equation calls f and also attn or mlp. Write it in f alone, for both "
      "sublayers, or in attn and mlp, for a whole layer. See docs/policies.md#norm_placement");
  static_assert(
      any_call,
      "[accrete] norm_placement: the equation calls no sublayer. Write f(...), or attn(...) and mlp(...). "
      "See docs/policies.md#norm_placement");
  static_assert(
      whole_layer,
      "[accrete] norm_placement: the equation calls one of attn and mlp only. A layer has both; write f(...) "
      "for an equation that serves each of them in turn. See docs/policies.md#norm_placement");
  static_assert(
      streams_match,
      "[accrete] norm_placement: the equation does not read as many streams as it gives. Write "
      "streams(new_x, new_y) where it has x and y, and read each. See docs/policies.md#norm_placement");
}

}  // namespace detail

/// From what a placement wrote to the equation of a whole layer: an equation in `f` is applied to attention,
/// then to the MLP on its result; one that names `attn` and `mlp` is a layer already.
template <class E>
constexpr auto layer_equation(E) {
  using P = program<E>;
  detail::check_layer<P>();
  if constexpr (P::num_inputs > P::num_outputs) {
    return typename P::root{};  // said above; without streams to bind there would be a second, unreadable error
  } else if constexpr (P::template num_calls<any_sublayer> == 0) {
    return typename P::root{};
  } else {
    using root = typename P::root;
    constexpr auto inputs = []<int... I>(std::integer_sequence<int, I...>) {
      return list<stream<I>...>{};
    }
    (std::make_integer_sequence<int, P::num_outputs>{});
    constexpr auto first = detail::bind_all<attention>(typename root::operands{}, inputs);
    return detail::outputs_of(detail::bind_all<feed_forward>(typename root::operands{}, first));
  }
}
template <class When, class A, class B>
constexpr auto layer_equation(choice<When, A, B>) {
  return choice<When, decltype(layer_equation(A{})), decltype(layer_equation(B{}))>{};
}

/// Numbers of the values that the streams are between attention and the MLP, in program P of a layer: one for
/// each stream where the placement's equation is one in `f`. A whole layer's equation has no such point, and
/// gives none.
template <class P, class E>
constexpr auto values_between_sublayers(E) {
  using sublayer = program<E>;
  if constexpr (sublayer::template num_calls<any_sublayer> == 0) {
    return std::array<int, 0>{};
  } else {
    using root = typename sublayer::root;
    constexpr auto inputs = []<int... I>(std::integer_sequence<int, I...>) {
      return list<stream<I>...>{};
    }
    (std::make_integer_sequence<int, sublayer::num_outputs>{});
    return []<class... V>(list<V...>) {
      return std::array{detail::index_of<V>(typename P::values{})...};
    }(detail::bind_all<attention>(typename root::operands{}, inputs));
  }
}
template <class P, class When, class A, class B>
constexpr auto values_between_sublayers(choice<When, A, B>) {
  if constexpr (std::is_same_v<P, program<decltype(layer_equation(A{}))>>)
    return values_between_sublayers<P>(A{});
  else
    return values_between_sublayers<P>(B{});
}

/// Calls `use(program)` with the program of the layer at `where`: the only one, or the one `by_depth` picks.
template <class E, class Use>
constexpr decltype(auto) with_program(E, site, Use&& use) {
  return use(program<E>{});
}
template <class When, class A, class B, class Use>
constexpr decltype(auto) with_program(choice<When, A, B>, site where, Use&& use) {
  return When::at(where) ? use(program<A>{}) : use(program<B>{});
}

/// Facts that hold for every layer of a stack, whichever program a layer gets.
template <class E>
struct equation_traits {
  static constexpr int num_streams = program<E>::num_outputs;
  static constexpr int num_scratch = wiring::num_scratch<program<E>>;
  static constexpr bool one_program = true;
};
template <class When, class A, class B>
struct equation_traits<choice<When, A, B>> {
  static constexpr int num_streams = program<A>::num_outputs;
  static constexpr bool same_streams = num_streams == program<B>::num_outputs;
  static_assert(
      same_streams,
      "[accrete] norm_placement: by_depth chooses between equations with different numbers of streams. "
      "Give both the same streams(...). See docs/policies.md#norm_placement");
  static constexpr int num_scratch = wiring::num_scratch<program<A>> > wiring::num_scratch<program<B>>
                                         ? wiring::num_scratch<program<A>>
                                         : wiring::num_scratch<program<B>>;
  static constexpr bool one_program = false;
};

}  // namespace accrete::inline v0::wiring
