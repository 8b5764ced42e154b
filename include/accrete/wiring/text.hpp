#pragma once
#include <array>
#include <cstddef>
#include <string>

#include "accrete/wiring/expression.hpp"
#include "accrete/wiring/program.hpp"

namespace accrete::inline v0::wiring {
namespace detail {

// a, b, ..., w, then a1, b1, ...: x, y and z are streams.
inline std::string letter(int k) {
  return std::string(1, char('a' + k % 23)) + (k < 23 ? "" : std::to_string(k / 23));
}

// x, y and z, then x3, x4, ...
inline std::string stream_name(int index) {
  return index < 3 ? std::string(1, char('x' + index)) : "x" + std::to_string(index);
}

template <class Node>
std::string written(Node, std::string const& a, std::string const& b, bool beside_another_norm) {
  if constexpr (Node::code == op::input) {
    return stream_name(Node::index);
  }
  if constexpr (Node::code == op::apply) return std::string(Node::sublayer::name) + "(" + a + ")";
  if constexpr (Node::code == op::norm) {
    bool const plain = Node::tag == 0 || !beside_another_norm;
    return (plain ? "norm" : "norm_" + std::to_string(Node::tag)) + "(" + a + ")";
  }
  if constexpr (Node::code == op::unit) return "unit(" + a + ")";
  if constexpr (Node::code == op::add) return a + " + " + b;
  if constexpr (Node::code == op::scale) return std::string(Node::constant::name) + " * " + a;
  if constexpr (Node::code == op::through) return "straight_through(" + a + ", " + b + ")";
}

}  // namespace detail

/// The program as one writes it: `a = x + attn(norm(x)); a + mlp(norm(a))`. Values used more than once get
/// names. A norm shows its tag only where it stands beside another norm of the same value.
template <class P>
std::string text() {
  std::array<std::string, std::size_t(P::size)> word;
  std::array<bool, std::size_t(P::size)> is_sum{};  // written out, not named
  std::string lets;
  int names = 0;
  auto write = [&]<class... V>(list<V...>) {
    int i = 0;
    auto one = [&]<class Node>(Node node) {
      auto const c = P::at(i);
      auto of = [&](int v, bool grouped) {
        if (v < 0) return std::string{};
        std::string const& w = word[std::size_t(v)];
        return grouped && is_sum[std::size_t(v)] ? "(" + w + ")" : w;
      };
      bool beside_another = false;
      for (int j = 0; j < P::size; ++j)
        beside_another = beside_another || (j != i && P::at(j).code == op::norm && P::at(j).a == c.a);
      std::string words =
          detail::written(node, of(c.a, c.code == op::scale), of(c.b, c.code == op::add), beside_another);
      int uses = 0;
      for (int u = i + 1; u < P::size; ++u) uses += (P::at(u).a == i) + (P::at(u).b == i);
      for (int o : P::outs) uses += o == i;
      bool const named = uses > 1 && c.code != op::input;
      if (named) {
        std::string const name = detail::letter(names++);
        lets += name + " = " + words + "; ";
        words = name;
      }
      is_sum[std::size_t(i)] = !named && c.code == op::add;
      word[std::size_t(i++)] = words;
    };
    (one(V{}), ...);
  };
  write(typename P::values{});
  std::string result;
  for (int o : P::outs) result += (result.empty() ? "" : ", ") + word[std::size_t(o)];
  return lets + result;
}

/// Both sides of a choice by depth are told.
template <class E>
std::string equation_text(E) {
  return text<program<E>>();
}
template <class When, class A, class B>
std::string equation_text(choice<When, A, B>) {
  return std::string("where ") + When::name + ": " + text<program<A>>() + "; elsewhere: " + text<program<B>>();
}

}  // namespace accrete::inline v0::wiring
