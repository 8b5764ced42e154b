#pragma once
#include <array>
#include <cstddef>
#include <string>

#include "accrete/wiring/expression.hpp"
#include "accrete/wiring/program.hpp"

namespace accrete::inline v0::wiring {
namespace detail {

template <class Node>
std::string written(Node, std::string const& a, std::string const& b) {
  if constexpr (Node::code == op::input) return Node::index == 0 ? "x" : "y";
  if constexpr (Node::code == op::apply) return std::string(Node::sublayer::name) + "(" + a + ")";
  if constexpr (Node::code == op::norm) return "norm(" + a + ")";
  if constexpr (Node::code == op::unit) return "unit(" + a + ")";
  if constexpr (Node::code == op::add) return a + " + " + b;
  if constexpr (Node::code == op::scale) {
    return std::string(Node::constant::name) + " * " + (a.find(' ') == std::string::npos ? a : "(" + a + ")");
  }
  if constexpr (Node::code == op::through) return "straight_through(" + a + ", " + b + ")";
}

}  // namespace detail

/// The program as one writes it: `a = x + attn(norm(x)); a + mlp(norm(a))`. Values used more than once get
/// names.
template <class P>
std::string text() {
  std::array<std::string, std::size_t(P::size)> name;
  std::string lets;
  char next = 'a';
  auto write = [&]<class... V>(list<V...>) {
    int i = 0;
    auto one = [&]<class Node>(Node node) {
      auto const c = P::at(i);
      auto of = [&](int v) { return v < 0 ? std::string{} : name[std::size_t(v)]; };
      std::string words = detail::written(node, of(c.a), of(c.b));
      int uses = 0;
      for (int u = i + 1; u < P::size; ++u) uses += (P::at(u).a == i) + (P::at(u).b == i);
      for (int o : P::outs) uses += o == i;
      if (uses > 1 && c.code != op::input) {
        lets += std::string(1, next) + " = " + words + "; ";
        words = std::string(1, next++);
      }
      name[std::size_t(i++)] = words;
    };
    (one(V{}), ...);
  };
  write(typename P::values{});
  std::string result;
  for (int o : P::outs) result += (result.empty() ? "" : ", ") + name[std::size_t(o)];
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
