#pragma once
#include <vector>

#include "accrete/wiring/expression.hpp"

namespace accrete::inline v0::wiring {

/// The constants of a program at one layer, in evaluation order.
template <class P>
std::vector<double> constants_at(site where) {
  std::vector<double> values;
  auto read = [&]<class... V>(list<V...>) {
    auto one = [&]<class Node>(Node) {
      if constexpr (Node::code == op::scale) values.push_back(double(Node::constant::at(where)));
    };
    (one(V{}), ...);
  };
  read(typename P::values{});
  return values;
}

}  // namespace accrete::inline v0::wiring
