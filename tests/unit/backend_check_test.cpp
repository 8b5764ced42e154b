#include "accrete/backend/check.hpp"

#include <array>
#include <string>
#include <type_traits>

#include "accrete/backend/arguments.hpp"
#include "accrete/core/error.hpp"
#include "accrete/reference/backend.hpp"
#include "support/catch.hpp"
#include "support/matrix.hpp"

using namespace accrete;

namespace {

/// A context that lacks one operation after another is no backend.
struct almost {
  using scalar = double;
  using real = double;
  using logit = double;
  using space = mem::host;
  static constexpr char const* name() { return "almost"; }
};

struct typeless {};

}  // namespace

TEST_CASE("backend holds for the plain loops and for nothing less", "[backend][concept]") {
  STATIC_REQUIRE(backend<reference::backend<>>);
  STATIC_REQUIRE(backend<reference::backend<float>>);
  STATIC_REQUIRE(has_types<almost>);
  STATIC_REQUIRE(!has_linear<almost>);
  STATIC_REQUIRE(!backend<almost>);
  STATIC_REQUIRE(!backend<typeless>);
  REQUIRE(std::string(reference::backend<>::name()) == "reference, f64");
  REQUIRE(std::string(reference::backend<float>::name()) == "reference, f32");
}

TEST_CASE("argument types leave the deduction of the element to the context", "[backend][arguments]") {
  // Views of mutable elements, a tensor and a column block stand where constants are read.
  test::matrix<> a(2, 3, {1, 2, 3, 4, 5, 6});
  tensor<double, 2> b({2, 3});
  add(reference::backend<>{}, a.view(), b, b);
  REQUIRE(test::difference(b, a) == 0.0);
  STATIC_REQUIRE(std::is_same_v<args::in2<float>, view<float const, 2, mem::host>>);
  STATIC_REQUIRE(std::is_same_v<args::out1<double, mem::device>, view<double, 1, mem::device>>);
}

TEST_CASE("checks pass what fits and name what does not", "[backend][check]") {
  tensor<double, 2> const m({3, 4});
  tensor<double, 1> const v({5});
  REQUIRE_NOTHROW(check::shape("op", "m", m.view(), {3, 4}));
  REQUIRE_THROWS_WITH(check::shape("op", "m", m.view(), {4, 3}), "op: got m [3, 4], expected [4, 3]");
  REQUIRE_THROWS_WITH(check::shape("op", "v", v.view(), {6}), "op: got v [5], expected [6]");
  REQUIRE_NOTHROW(check::that(true, "op", "a", "b"));
  REQUIRE_THROWS_WITH(check::that(false, "op", "a", "b"), "op: got a, expected b");
  REQUIRE_NOTHROW(check::documents("op", test::offsets{0, 2, 2, 5}, 5));
  REQUIRE_NOTHROW(check::documents("op", test::offsets{0}, 0));
  REQUIRE_THROWS_AS(check::documents("op", test::offsets{}, 0), shape_error);
  REQUIRE_THROWS_AS(check::documents("op", test::offsets{0}, 1), shape_error);
  REQUIRE_THROWS_AS(check::documents("op", test::offsets{-1, 5}, 5), shape_error);
  REQUIRE_THROWS_AS(check::documents("op", test::offsets{0, 6, 5}, 5), shape_error);
  REQUIRE_NOTHROW(check::targets_below("op", test::ids{0, 4, ignore_target}, 5));
  REQUIRE_THROWS_AS(check::ids_below("op", test::ids{0, ignore_target}, 5, "rows"), shape_error);
  REQUIRE_THROWS_AS(check::ids_below("op", test::ids{5}, 5, "rows"), shape_error);
  REQUIRE_NOTHROW(check::heads("op", {4, 2, 3, 1.0}));
  REQUIRE_THROWS_WITH(check::heads("op", {4, 3, 8, 1.0}),
                      "op: got 4 heads over 3 key/value heads of size 8, expected positive numbers, the first "
                      "a multiple of the second");
  REQUIRE_THROWS_AS(check::heads("op", {4, 2, 0, 1.0}), shape_error);
}
