#pragma once
#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "accrete/wiring/expression.hpp"
#include "accrete/wiring/program.hpp"
#include "accrete/wiring/text.hpp"

namespace accrete::inline v0::wiring {

/// A program as a method body in Python, on torch tensors: what a model that leaves the library computes is
/// read from the same array as what it computed here. One line a value; streams are x, y, z, x3, ...
struct python_body {
  std::string arguments;               ///< "x", or "x, y"
  std::vector<std::string> lines;      ///< the body, its return last
  std::vector<std::string> constants;  ///< names of self.c0, self.c1, ... in that order, for a comment
};

namespace detail {

template <class Node>
std::string python_value(Node, std::string const& a, std::string const& b, std::string const& name) {
  if constexpr (Node::code == op::apply) return std::string(Node::sublayer::name) + "(" + a + ")";
  if constexpr (Node::code == op::norm) return "self." + name + "(" + a + ")";
  if constexpr (Node::code == op::unit) return "unit(" + a + ", self.eps)";
  if constexpr (Node::code == op::add) return a + " + " + b;
  if constexpr (Node::code == op::scale) return "self." + name + " * " + a;
  // The value of the first, exactly, and the gradient of the second.
  if constexpr (Node::code == op::through) return a + ".detach() + (" + b + " - " + b + ".detach())";
  return {};
}

}  // namespace detail

/// `norm_names[g]` is the attribute that holds norm number g; sublayers are callables `attn` and `mlp`.
template <class P>
python_body python(std::vector<std::string> const& norm_names) {
  python_body body;
  for (int s = 0; s < P::num_inputs; ++s) body.arguments += (s == 0 ? "" : ", ") + detail::stream_name(s);
  std::array<std::string, std::size_t(P::size)> word;
  auto write = [&]<class... V>(list<V...>) {
    int i = 0;
    int values = 0;
    auto one = [&]<class Node>(Node node) {
      auto const c = P::at(i);
      auto of = [&](int v) { return v < 0 ? std::string{} : word[std::size_t(v)]; };
      if constexpr (Node::code == op::input) {
        word[std::size_t(i)] = detail::stream_name(Node::index);
      } else {
        std::string name;
        if constexpr (Node::code == op::norm) name = norm_names[std::size_t(c.gain)];
        if constexpr (Node::code == op::scale) {
          name = "c" + std::to_string(body.constants.size());
          body.constants.emplace_back(Node::constant::name);
        }
        word[std::size_t(i)] = "v" + std::to_string(values++);
        body.lines.push_back(word[std::size_t(i)] + " = " + detail::python_value(node, of(c.a), of(c.b), name));
      }
      ++i;
    };
    (one(V{}), ...);
  };
  write(typename P::values{});
  std::string result;
  for (int o : P::outs) result += (result.empty() ? "" : ", ") + word[std::size_t(o)];
  body.lines.push_back("return " + result);
  return body;
}

}  // namespace accrete::inline v0::wiring
