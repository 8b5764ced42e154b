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
