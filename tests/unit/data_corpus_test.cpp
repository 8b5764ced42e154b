#include <accrete/data/corpus.hpp>
#include <accrete/data/split_validation.hpp>
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <set>
#include <vector>

#include "support/catch.hpp"

namespace ac = accrete;
using ac::data::corpus;
using ac::data::cutting;
using ids = std::vector<std::int32_t>;
using sizes = std::vector<ac::index_t>;

namespace {
ids text(int length, int start = 0) {
  ids values(std::size_t(length), 0);
  std::iota(values.begin(), values.end(), start);
  return values;
}
}  // namespace

TEST_CASE("a text cut at a length is one document", "[data][corpus]") {
  corpus all;
  for (int length : {10, 4, 1, 0, 3}) all.append(text(length), {cutting::first, 4});
  REQUIRE(all.tokens == ids{0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2});
  REQUIRE(all.offsets == sizes{0, 4, 8, 11});
  REQUIRE(all.origins == sizes{0, 1, 4});
  REQUIRE(all.dropped == 2);
  REQUIRE(all.num_origins == 5);
}

TEST_CASE("a text cut into windows gives all its tokens but a single last one", "[data][corpus]") {
  corpus all;
  for (int length : {10, 8, 9, 1, 0}) all.append(text(length), {cutting::windows, 4});
  REQUIRE(all.tokens == ids{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7});
  REQUIRE(all.offsets == sizes{0, 4, 8, 10, 14, 18, 22, 26});
  REQUIRE(all.origins == sizes{0, 0, 0, 1, 1, 2, 2});
  REQUIRE(all.dropped == 3);
}

TEST_CASE("a cut below two tokens is refused", "[data][corpus]") {
  corpus all;
  REQUIRE_THROWS_AS(all.append(text(3), {cutting::first, 1}), ac::config_error);
  REQUIRE_THROWS_AS(all.append(text(3), {cutting::windows, 0}), ac::config_error);
}

TEST_CASE("the identity of a corpus covers tokens and offsets", "[data][corpus]") {
  corpus a, b, c, d;
  a.append(text(6), {cutting::first, 8});
  b.append(text(6), {cutting::first, 8});
  c.append(text(6), {cutting::windows, 3});
  d.append(text(6, 1), {cutting::first, 8});
  REQUIRE(a.identity() == b.identity());
  REQUIRE(a.tokens == c.tokens);
  REQUIRE(a.identity() != c.identity());
  REQUIRE(a.identity() != d.identity());
  b.tokens[3] += 65536;
  REQUIRE(a.identity() != b.identity());
}

TEST_CASE("a validation set never shares a text with the training set", "[data][corpus]") {
  corpus all;
  for (int t = 0; t < 20; ++t) all.append(text(3 + t, 100 * t), {cutting::windows, 4});
  for (int count : {0, 1, 7, 16}) {
    auto const parts = split_validation(all, count, ac::seed{7});
    REQUIRE(parts.validation.num_documents() == count);
    std::set<ac::index_t> held(parts.validation.origins.begin(), parts.validation.origins.end());
    for (ac::index_t origin : parts.training.origins) REQUIRE(held.count(origin) == 0);
    // Everything but the unneeded windows of the text drawn last is on one side.
    for (ac::index_t d = 0; d < all.num_documents(); ++d) {
      bool const is_held = held.count(all.origins[std::size_t(d)]) > 0;
      auto const& side = is_held ? parts.validation : parts.training;
      auto const document = all.document(d);
      bool found = false;
      for (ac::index_t e = 0; e < side.num_documents(); ++e)
        found = found || std::ranges::equal(side.document(e), document);
      if (!is_held) REQUIRE(found);
    }
    auto const again = split_validation(all, count, ac::seed{7});
    REQUIRE(again.validation.identity() == parts.validation.identity());
    REQUIRE(again.training.identity() == parts.training.identity());
  }
  REQUIRE(split_validation(all, 7, ac::seed{8}).validation.identity() !=
          split_validation(all, 7, ac::seed{7}).validation.identity());
}

TEST_CASE("a validation set that leaves nothing to train on is refused", "[data][corpus]") {
  corpus all;
  REQUIRE_THROWS_AS(split_validation(all, 0, ac::seed{1}), ac::config_error);
  for (int t = 0; t < 3; ++t) all.append(text(5), {cutting::first, 4});
  REQUIRE(split_validation(all, 2, ac::seed{1}).training.num_documents() == 1);
  REQUIRE_THROWS_AS(split_validation(all, 3, ac::seed{1}), ac::config_error);
  REQUIRE_THROWS_AS(split_validation(all, 4, ac::seed{1}), ac::config_error);
  REQUIRE_THROWS_AS(split_validation(all, -1, ac::seed{1}), ac::config_error);
}
