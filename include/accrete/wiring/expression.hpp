#pragma once
#include <concepts>
#include <type_traits>

/// The words a residual equation is written in. An expression is an empty value whose type is the equation:
///
///     static constexpr auto wiring = x + f(norm(x));
///
/// Nothing here computes. `program` turns the type into instructions (program.hpp).
namespace accrete::inline v0::wiring {

/// Where in the stack a layer sits. `layer` is its creation id, which it keeps when others are inserted;
/// `depth` is the final depth of the plan, so that constants do not move while the student grows.
struct site {
  int layer = 0;
  int depth = 0;
};

template <class... E>
struct list {
  static constexpr int size = int(sizeof...(E));
};

enum class op { input, apply, norm, unit, add, scale, through };

namespace detail {
template <class>
inline constexpr bool never =
    false;  // a static_assert on it fires when its template is used, not when it is read
}  // namespace detail

struct expression_base {};
template <class E>
concept expression = std::is_base_of_v<expression_base, E>;

// Nodes: an op code, the operands' types, and `over(...)`, the same node on other operands.

template <int I>
struct stream : expression_base {
  using operands = list<>;
  static constexpr op code = op::input;
  static constexpr int index = I;
};

template <class Sublayer, class E>
struct applied : expression_base {
  using operands = list<E>;
  using sublayer = Sublayer;
  static constexpr op code = op::apply;
  template <class A>
  static constexpr applied<Sublayer, A> over(A) {
    return {};
  }
};

template <int Tag, class E>
struct normalized : expression_base {  // one gain per node, numbered in evaluation order
  using operands = list<E>;
  static constexpr op code = op::norm;
  static constexpr int tag = Tag;
  template <class A>
  static constexpr normalized<Tag, A> over(A) {
    return {};
  }
};

template <class E>
struct united : expression_base {  // unit RMS, no gain
  using operands = list<E>;
  static constexpr op code = op::unit;
  template <class A>
  static constexpr united<A> over(A) {
    return {};
  }
};

template <class A, class B>
struct sum : expression_base {
  using operands = list<A, B>;
  static constexpr op code = op::add;
  template <class C, class D>
  static constexpr sum<C, D> over(C, D) {
    return {};
  }
};

template <class Constant, class E>
struct scaled : expression_base {
  using operands = list<E>;
  using constant = Constant;
  static constexpr op code = op::scale;
  template <class A>
  static constexpr scaled<Constant, A> over(A) {
    return {};
  }
};

template <class Value, class Gradient>
struct through : expression_base {
  using operands = list<Value, Gradient>;
  static constexpr op code = op::through;
  template <class A, class B>
  static constexpr through<A, B> over(A, B) {
    return {};
  }
};

template <class... E>
struct outputs : expression_base {
  using operands = list<E...>;
};

template <class When, class Then, class Else>
struct choice : expression_base {};

// Words.

struct any_sublayer {
  static constexpr char const* name = "f";
};
struct attention {
  static constexpr char const* name = "attn";
};
struct feed_forward {
  static constexpr char const* name = "mlp";
};

template <class Sublayer>
struct sublayer_word {
  template <expression E>
  constexpr applied<Sublayer, E> operator()(E) const {
    return {};
  }
};
template <int Tag>
struct norm_word {
  template <expression E>
  constexpr normalized<Tag, E> operator()(E) const {
    return {};
  }
};
struct unit_word {
  template <expression E>
  constexpr united<E> operator()(E) const {
    return {};
  }
};

template <class Named>
concept has_site_value = requires(site where) {
  { Named::at(where) } -> std::convertible_to<double>;
  { Named::name } -> std::convertible_to<char const*>;
};
template <class Named>
concept has_site_answer = requires(site where) {
  { Named::at(where) } -> std::same_as<bool>;
  { Named::name } -> std::convertible_to<char const*>;
};

/// A constant of the equation: a named struct with `static double at(site)` and `static constexpr const char*
/// name`. Lambdas would do, but each translation unit would see a type of its own.
template <class Named>
struct constant {
  static_assert(
      has_site_value<Named>,
      "[accrete] norm_placement: constant<C> needs a struct C with 'static double at(wiring::site)' and "
      "'static constexpr char const* name'. See docs/policies.md#norm_placement");
};

inline constexpr stream<0> x{};                    ///< the residual stream
inline constexpr stream<1> y{};                    ///< a second one, where the method has it
inline constexpr sublayer_word<any_sublayer> f{};  ///< attention, then the MLP: the equation serves both
inline constexpr sublayer_word<attention> attn{};  ///< attention only: the equation is a whole layer
inline constexpr sublayer_word<feed_forward> mlp{};
inline constexpr norm_word<0> norm{};
/// A second norm, with a gain of its own, of a value that is normalized already elsewhere in the equation.
template <int Tag>
inline constexpr norm_word<Tag> norm_{};
inline constexpr unit_word unit{};  ///< unit RMS per token, no gain

template <expression A, expression B>
constexpr sum<A, B> operator+(A, B) {
  return {};
}
template <class Named, expression E>
constexpr scaled<Named, E> operator*(constant<Named>, E) {
  return {};
}
/// A number has no type of its own: name it as a struct and write `constant<that>{} * e`.
template <expression E>
constexpr E operator*(double, E e) {
  constexpr bool is_named = detail::never<E>;
  static_assert(
      is_named,
      "[accrete] norm_placement: a number times an expression: only types are kept. Name it, 'struct half "
      "{ static double at(wiring::site) { return 0.5; } static constexpr char const* name = \"0.5\"; }', "
      "and write 'wiring::constant<half>{} * e'. See docs/policies.md#norm_placement");
  return e;
}
template <expression E>
constexpr E operator*(E e, double number) {
  return number * e;
}

/// The value of `v`, the gradient of `g`.
template <expression V, expression G>
constexpr through<V, G> straight_through(V, G) {
  return {};
}
/// What each stream becomes.
template <expression... E>
constexpr outputs<E...> streams(E...) {
  return {};
}
/// One equation where `When::at(site)` holds, another elsewhere. Only as the root.
template <class When, expression Then, expression Else>
constexpr choice<When, Then, Else> by_depth(Then, Else) {
  static_assert(
      has_site_answer<When>,
      "[accrete] norm_placement: by_depth<When> needs a struct When with 'static constexpr bool "
      "at(wiring::site)' and 'static constexpr char const* name'. See docs/policies.md#norm_placement");
  return {};
}

}  // namespace accrete::inline v0::wiring
