#include <Eigen/Core>
#include <type_traits>
#include <utility>

#include "accrete/core/error.hpp"
#include "accrete/tensor/eigen.hpp"
#include "accrete/tensor/tensor.hpp"
#include "accrete/tensor/xtensor.hpp"
#include "support/catch.hpp"

using accrete::as_eigen;
using accrete::as_xtensor;
using accrete::index_t;
using accrete::view_of;

namespace {
accrete::tensor<double, 2> counted(index_t rows, index_t columns) {
  accrete::tensor<double, 2> t({rows, columns});
  for (index_t i = 0; i < t.size(); ++i) t.data()[i] = double(i);
  return t;
}
}  // namespace

TEST_CASE("a view reads and writes through Eigen without a copy", "[tensor][interop]") {
  auto t = counted(3, 5);
  auto m = as_eigen(t.view());
  CHECK(m.data() == t.data());
  CHECK(m.rows() == 3);
  CHECK(m.cols() == 5);
  m(2, 1) = -7;
  CHECK(t.view()(2, 1) == -7);
  auto block = as_eigen(t.view().column_slice(1, 2));  // keeps the row distance
  CHECK(block(1, 1) == t.view()(1, 2));
  block.row(0).setConstant(9);
  CHECK(t.view()(0, 0) == 0);
  CHECK(t.view()(0, 1) == 9);
  CHECK(t.view()(0, 2) == 9);
  CHECK(t.view()(0, 3) == 3);
  auto const constant = as_eigen(std::as_const(t).view());
  STATIC_REQUIRE(std::is_same_v<decltype(constant.data()), double const*>);
  CHECK(as_eigen(t.view().flat()).size() == 15);
}

TEST_CASE("an Eigen matrix is a view without a copy", "[tensor][interop]") {
  Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> m(2, 3);
  m.setZero();
  auto v = view_of(m);
  CHECK(v.data == m.data());
  v(1, 2) = 4;
  CHECK(m(1, 2) == 4);
  STATIC_REQUIRE(std::is_same_v<decltype(view_of(std::as_const(m)))::element_type, float const>);
}

TEST_CASE("a view reads and writes through xtensor without a copy", "[tensor][interop]") {
  auto t = counted(3, 4);
  auto x = as_xtensor(t.view());
  CHECK(x.data() == t.data());
  CHECK(x.shape()[0] == 3);
  CHECK(x(2, 3) == 11);
  x(0, 0) = 5;
  CHECK(t.view()(0, 0) == 5);
  CHECK_THROWS_AS(as_xtensor(t.view().column_slice(1, 2)), accrete::shape_error);
}

TEST_CASE("an xtensor is a view without a copy", "[tensor][interop]") {
  xt::xtensor<double, 2> x = xt::zeros<double>({2, 3});
  auto v = view_of(x);
  CHECK(v.data == x.data());
  v(1, 1) = 3;
  CHECK(x(1, 1) == 3);
}

namespace {
template <class T>
concept viewable = requires(T&& t) {
  view_of(std::forward<T>(t));
};
}  // namespace

TEST_CASE("a view of what is about to die does not compile", "[tensor][interop][U72]") {
  using eigen = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  STATIC_REQUIRE((viewable<eigen&> && viewable<eigen const&> && !viewable<eigen> && !viewable<eigen const>));
  using x = xt::xtensor<double, 2>;
  STATIC_REQUIRE((viewable<x&> && viewable<x const&> && !viewable<x> && !viewable<x const>));
}
