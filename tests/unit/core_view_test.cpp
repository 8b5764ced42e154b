#include "accrete/core/view.hpp"

#include <array>
#include <cstdint>
#include <type_traits>

#include "support/catch.hpp"

using namespace accrete;

namespace {
std::array<double, 12> twelve() {
  std::array<double, 12> numbers{};
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = double(i);
  return numbers;
}
}  // namespace

TEST_CASE("view reads memory row by row", "[core][view]") {
  auto memory = twelve();
  view<double, 2> const m(memory.data(), {3, 4});
  REQUIRE((m.rows() == 3 && m.columns() == 4 && m.size() == 12 && m.stride == 4));
  REQUIRE((m.extent(0) == 3 && m.extent(1) == 4));
  REQUIRE((m(0, 0) == 0 && m(1, 0) == 4 && m(2, 3) == 11));
  REQUIRE(m.row(2) == memory.data() + 8);
  m(1, 2) = 60;
  REQUIRE(memory[6] == 60);
}

TEST_CASE("view slices rows without copying", "[core][view]") {
  auto memory = twelve();
  view<double, 2> const m(memory.data(), {3, 4});
  auto const last = m.slice(1, 2);
  REQUIRE((last.rows() == 2 && last.columns() == 4));
  REQUIRE((last(0, 0) == 4 && last(1, 3) == 11));
  REQUIRE(last.contiguous());
  REQUIRE(m.slice(3, 0).empty());
  view<double, 1> const v(memory.data(), {12});
  REQUIRE((v.slice(5, 3).size() == 3 && v.slice(5, 3)(0) == 5 && v.slice(5, 3)(2) == 7));
}

TEST_CASE("view takes blocks of columns, and blocks of those", "[core][view]") {
  auto memory = twelve();
  view<double, 2> const m(memory.data(), {3, 4});
  auto const middle = m.column_slice(1, 2);
  REQUIRE((middle.rows() == 3 && middle.columns() == 2 && middle.stride == 4 && middle.size() == 6));
  REQUIRE((middle(0, 0) == 1 && middle(2, 1) == 10));
  auto const corner = middle.slice(1, 2).column_slice(1, 1);
  REQUIRE((corner(0, 0) == 6 && corner(1, 0) == 10));
  REQUIRE_FALSE(middle.contiguous());
  REQUIRE(middle.slice(1, 1).contiguous());  // one row has no gap
  REQUIRE(m.column_slice(0, 4).contiguous());
}

TEST_CASE("view spreads a vector over memory by its distance", "[core][view]") {
  auto memory = twelve();
  view<double, 1> const column(memory.data() + 1, {3}, 4);
  REQUIRE((column(0) == 1 && column(1) == 5 && column(2) == 9));
  REQUIRE_FALSE(column.contiguous());
  REQUIRE((column.slice(1, 2)(1) == 9 && column.size() == 3));
}

TEST_CASE("view flattens what lies together", "[core][view]") {
  auto memory = twelve();
  view<double, 3> const cube(memory.data(), {2, 3, 2});
  REQUIRE((cube.size() == 12 && cube.stride == 6 && cube.row(1) == memory.data() + 6));
  auto const flat = cube.slice(1, 1).flat();
  STATIC_REQUIRE(std::is_same_v<decltype(flat), view<double, 1> const>);
  REQUIRE((flat.size() == 6 && flat(0) == 6 && flat(5) == 11));
}

TEST_CASE("view of mutable elements becomes one of constants, not the other way", "[core][view]") {
  STATIC_REQUIRE(std::is_convertible_v<view<double, 2>, view<double const, 2>>);
  STATIC_REQUIRE(!std::is_convertible_v<view<double const, 2>, view<double, 2>>);
  STATIC_REQUIRE(!std::is_convertible_v<view<double, 2>, view<double, 1>>);
  STATIC_REQUIRE(!std::is_convertible_v<view<double, 2>, view<float, 2>>);
  STATIC_REQUIRE(std::is_same_v<view<double const, 1>::value_type, double>);
  auto memory = twelve();
  view<double, 2> const block = view<double, 2>(memory.data(), {3, 4}).column_slice(1, 2);
  view<double const, 2> const same = block;
  REQUIRE((same.data == block.data && same.extents == block.extents && same.stride == block.stride));
}

TEST_CASE("view keeps host and device memory apart by type", "[core][view]") {
  STATIC_REQUIRE(!std::is_convertible_v<view<double, 2, mem::host>, view<double, 2, mem::device>>);
  STATIC_REQUIRE(!std::is_convertible_v<view<double, 2, mem::device>, view<double, 2, mem::host>>);
  STATIC_REQUIRE(!std::is_invocable_v<view<double, 1, mem::device> const&, index_t>);
  STATIC_REQUIRE(std::is_invocable_v<view<double, 1, mem::host> const&, index_t>);
}

TEST_CASE("view is empty when nothing is in it", "[core][view]") {
  view<double, 2> const nothing;
  REQUIRE((nothing.empty() && nothing.contiguous() && nothing.data == nullptr));
  REQUIRE(view<double, 2>(nullptr, {0, 5}).empty());
  REQUIRE(view<double, 2>(nullptr, {5, 0}).empty());
}

TEST_CASE("view counts past 2^31 elements", "[core][view]") {
  // U27: 8 x 2048 tokens of 151,936 logits; 32 bits would say -1,805,647,872.
  STATIC_REQUIRE(sizeof(index_t) == 8);
  view<char const, 2> const logits(nullptr, {8 * 2048, 151936});
  REQUIRE(logits.size() == 2489319424);
  REQUIRE(view<char const, 3>(nullptr, {8, 2048, 151936}).size() == 2489319424);
  REQUIRE(view<char const, 3>(nullptr, {1, 16384, 151936}).stride == 2489319424);
  // Addresses only: nothing is read there.
  auto const* base = reinterpret_cast<char const*>(std::uintptr_t(1) << 40);
  view<char const, 2> const far(base, {8 * 2048, 151936});
  REQUIRE(far.row(14135) - base == 2147615360);
  REQUIRE(far.row(16383) - base == 2489167488);
  REQUIRE(far.slice(16383, 1).column_slice(151935, 1).data - base == 2489319423);
}

TEST_CASE("a block of columns of no rows has no rows, wherever it begins", "[core][view]") {
  view<double, 2> const nothing(nullptr, {0, 6});
  auto const block = nothing.column_slice(2, 3);
  CHECK(block.data == nullptr);
  CHECK(block.columns() == 3);
  CHECK(block.empty());
}
