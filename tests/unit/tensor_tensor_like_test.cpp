#include "accrete/tensor/tensor_like.hpp"

#include <vector>

#include "accrete/core/view.hpp"
#include "accrete/tensor/tensor.hpp"
#include "support/catch.hpp"

using namespace accrete;

namespace {

/// A tensor of the user's own: names, and a view.
struct grid {
  using value_type = double;
  using space = mem::host;
  static constexpr int rank = 2;
  double numbers[6] = {};
  operator view<double, 2>() { return {numbers, {2, 3}}; }
};

struct grid_without_view {
  using value_type = double;
  using space = mem::host;
  static constexpr int rank = 2;
};

struct grid_of_another_rank : grid_without_view {
  double numbers[6] = {};
  operator view<double, 1>() { return {numbers, {6}}; }
};

template <tensor_like X>
index_t first_extent(X& x) {
  return view<typename X::value_type, X::rank, typename X::space>(x).rows();
}

}  // namespace

TEST_CASE("tensor_like holds for tensors, views and a user's own type", "[tensor][tensor_like]") {
  STATIC_REQUIRE(tensor_like<tensor<float, 1>>);
  STATIC_REQUIRE(tensor_like<tensor<float, 3, mem::device>>);
  STATIC_REQUIRE(tensor_like<view<double, 2>>);
  STATIC_REQUIRE(tensor_like<view<double const, 2>>);
  STATIC_REQUIRE(tensor_like<grid>);
  grid g;
  tensor<float, 2> t({4, 1});
  REQUIRE((first_extent(g) == 2 && first_extent(t) == 4));
}

TEST_CASE("tensor_like fails for what has no view of its rank", "[tensor][tensor_like]") {
  STATIC_REQUIRE(!tensor_like<double>);
  STATIC_REQUIRE(!tensor_like<double*>);
  STATIC_REQUIRE(!tensor_like<std::vector<double>>);
  STATIC_REQUIRE(!tensor_like<grid_without_view>);
  STATIC_REQUIRE(!tensor_like<grid_of_another_rank>);
}
