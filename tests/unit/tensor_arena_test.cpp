#include "accrete/tensor/arena.hpp"

#include <array>
#include <cstdint>

#include "accrete/core/error.hpp"
#include "support/catch.hpp"

using namespace accrete;

namespace {

struct buffers {
  view<float, 2> activations;
  view<double, 1> sums;
  view<std::int32_t, 1> ids;
  view<float, 2> nothing;
  view<double, 3> cube;
};

buffers lay_out(arena<>& memory, index_t tokens) {
  return {memory.matrix<float>(tokens, 5), memory.vector<double>(3), memory.vector<std::int32_t>(tokens),
          memory.matrix<float>(0, 5), memory.take<double>(std::array<index_t, 3>{2, 3, 4})};
}

}  // namespace

TEST_CASE("arena needs exactly what it measured", "[tensor][arena]") {
  for (index_t tokens : {1, 7, 16, 1000}) {
    arena<> measuring;
    auto const planned = lay_out(measuring, tokens);
    REQUIRE((planned.activations.data == nullptr && planned.activations.rows() == tokens));
    REQUIRE(measuring.capacity() == 0);
    arena<> real(measuring.used());
    lay_out(real, tokens);
    REQUIRE((real.used() == measuring.used() && real.used() == real.capacity()));
  }
  arena<> measuring;
  lay_out(measuring, 7);
  // 140, 24, 28, 0 and 192 bytes, each rounded up to 64.
  REQUIRE(measuring.used() == 192 + 64 + 64 + 0 + 192);
}

TEST_CASE("arena hands out zeros that are aligned and do not overlap", "[tensor][arena]") {
  arena<> measuring;
  lay_out(measuring, 7);
  arena<> real(measuring.used());
  auto const b = lay_out(real, 7);
  auto const address = [](auto const& v) { return reinterpret_cast<std::uintptr_t>(v.data); };
  for (auto a : {address(b.activations), address(b.sums), address(b.ids), address(b.cube)}) {
    REQUIRE(a % arena<>::alignment == 0);
  }
  REQUIRE((b.activations(6, 4) == 0 && b.sums(2) == 0 && b.ids(6) == 0 && b.cube.row(1)[11] == 0));
  REQUIRE(b.activations.contiguous());
  // Filled to the brim, each keeps its own.
  for (index_t i = 0; i < 35; ++i) b.activations.data[i] = 1;
  for (index_t i = 0; i < 3; ++i) b.sums(i) = 2;
  for (index_t i = 0; i < 7; ++i) b.ids(i) = 3;
  for (index_t i = 0; i < 24; ++i) b.cube.data[i] = 4;
  REQUIRE((b.activations(6, 4) == 1 && b.sums(0) == 2 && b.sums(2) == 2 && b.ids(0) == 3 && b.ids(6) == 3));
}

TEST_CASE("arena refuses more than was measured, and keeps what it gave", "[tensor][arena]") {
  arena<> memory(128);
  auto const first = memory.vector<double>(8);
  REQUIRE_THROWS_AS(memory.vector<double>(9), shape_error);
  REQUIRE_THROWS_WITH(memory.vector<double>(9),
                      "arena: got 192 bytes asked, expected at most the 128 bytes that were measured");
  auto const second = memory.vector<double>(8);
  REQUIRE(second.data == first.data + 8);
  REQUIRE((memory.used() == 128 && memory.capacity() == 128));
}

TEST_CASE("arena spreads rows over an odd number of cache lines", "[tensor][arena]") {
  for (index_t const columns : {1, 16, 17, 31, 32, 33, 768, 800, 4096}) {
    CAPTURE(columns);
    index_t const floats = row_distance<float>(columns), halves = row_distance<std::uint16_t>(columns);
    CHECK((floats >= columns && floats <= columns + 31 && floats % 16 == 0 && floats / 16 % 2 == 1));
    CHECK((halves >= columns && halves <= columns + 63 && halves % 32 == 0 && halves / 32 % 2 == 1));
    arena<> measuring;
    measuring.spread_matrix<float>(3, columns);
    arena<> real(measuring.used());
    auto const m = real.spread_matrix<float>(3, columns);
    CHECK((m.rows() == 3 && m.columns() == columns && m.stride == floats));
    CHECK(real.used() == std::size_t(3 * floats) * sizeof(float));
  }
}

TEST_CASE("arena carves from memory that is lent, and no further", "[tensor][arena]") {
  tensor<std::byte, 1> block({index_t(256)});
  arena<> memory(block.view());
  auto const first = memory.vector<float>(20);
  auto const second = memory.vector<double>(8);
  CHECK(static_cast<void*>(first.data) == block.data());
  CHECK(static_cast<void*>(second.data) == block.data() + 128);
  CHECK(memory.capacity() == 0);
  CHECK_THROWS_WITH(memory.vector<float>(17),
                    "arena: got 320 bytes asked, expected at most the 256 bytes that were measured");
  arena<> const moved(std::move(memory));
  CHECK(moved.used() == 192);
}
