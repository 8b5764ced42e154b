#include "accrete/tensor/tensor.hpp"

#include <cstdint>
#include <type_traits>
#include <utility>

#include "support/catch.hpp"

using namespace accrete;

TEST_CASE("tensor owns zeros, aligned to a cache line", "[tensor][tensor]") {
  for (index_t n : {1, 3, 64, 1001}) {
    tensor<float, 2> const t({n, 7});
    REQUIRE(reinterpret_cast<std::uintptr_t>(t.data()) % 64 == 0);
    REQUIRE((t.size() == 7 * n && t.bytes() == std::size_t(28 * n) && t.extent(0) == n && t.extent(1) == 7));
    bool zero = true;
    for (index_t i = 0; i < t.size(); ++i) zero = zero && t.data()[i] == 0.0f;
    REQUIRE(zero);
  }
}

TEST_CASE("tensor converts to views of its own memory", "[tensor][tensor]") {
  tensor<double, 2> t({3, 4});
  view<double, 2> const writable = t;
  view<double const, 2> const readable = std::as_const(t);
  writable(2, 3) = 5;
  REQUIRE(readable(2, 3) == 5);
  REQUIRE((t.view().data == t.data() && readable.contiguous() && readable.extents == writable.extents));
  STATIC_REQUIRE(!std::is_convertible_v<tensor<double, 2> const, view<double, 2>>);
}

TEST_CASE("tensor moves and is never copied by accident", "[tensor][tensor]") {
  STATIC_REQUIRE(!std::is_copy_constructible_v<tensor<double, 2>>);
  STATIC_REQUIRE(!std::is_copy_assignable_v<tensor<double, 2>>);
  STATIC_REQUIRE(std::is_nothrow_move_constructible_v<tensor<double, 2>>);
  STATIC_REQUIRE(std::is_nothrow_move_assignable_v<tensor<double, 2>>);
  tensor<double, 2> a({3, 4});
  a.view()(1, 1) = 7;
  double* const memory = a.data();
  tensor<double, 2> b(std::move(a));
  REQUIRE((b.data() == memory && b.view()(1, 1) == 7));
  tensor<double, 2> c({2, 2});
  c = std::move(b);
  REQUIRE((c.data() == memory && c.extent(0) == 3));
  tensor<double, 2>& same = c;
  c = std::move(same);
  REQUIRE((c.data() == memory && c.view()(1, 1) == 7));
  tensor<double, 2> d;
  d = tensor<double, 2>({5, 1});
  REQUIRE(d.extent(0) == 5);
}

TEST_CASE("tensor of nothing holds no memory", "[tensor][tensor]") {
  tensor<double, 2> const none, no_rows({0, 5}), no_columns({5, 0});
  REQUIRE((none.empty() && no_rows.empty() && no_columns.empty()));
  REQUIRE((none.data() == nullptr && no_rows.data() == nullptr && no_columns.bytes() == 0));
}
