#include <accrete/data/padded.hpp>
#include <accrete/data/ragged_batch.hpp>
#include <array>
#include <cstdint>
#include <numeric>
#include <vector>

#include "support/catch.hpp"

namespace ac = accrete;
using ids = std::vector<std::int32_t>;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("a ragged batch shifts targets inside of each document", "[data][ragged_batch][U26]") {
  ac::data::ragged_batch batch;
  batch.append(ids{5, 7, 9, 11}, 3);
  batch.append(ids{}, 4);
  batch.append(ids{2}, 5);
  batch.append(ids{8, 6}, 6);
  REQUIRE(batch.tokens == ids{5, 7, 9, 11, 2, 8, 6});
  REQUIRE(batch.targets == ids{7, 9, 11, -1, -1, 6, -1});
  REQUIRE(batch.positions == ids{0, 1, 2, 3, 0, 0, 1});
  REQUIRE(batch.offsets == std::vector<ac::index_t>{0, 4, 5, 7});
  REQUIRE(batch.documents == std::vector<ac::index_t>{3, 5, 6});
  REQUIRE(batch.num_targets == 4);
  REQUIRE(batch.num_documents() == 3);
  auto const last = batch.document(2);
  REQUIRE(ids(last.begin(), last.end()) == ids{8, 6});
}

TEST_CASE("a ragged batch keeps its memory over clear", "[data][ragged_batch]") {
  ac::data::ragged_batch batch;
  batch.reserve(64, 8);
  auto const* const tokens = batch.tokens.data();
  auto const* const targets = batch.targets.data();
  auto const* const positions = batch.positions.data();
  auto const* const offsets = batch.offsets.data();
  auto const* const documents = batch.documents.data();
  for (int round = 0; round < 3; ++round) {
    batch.clear();
    REQUIRE(batch.empty());
    REQUIRE(batch.offsets == std::vector<ac::index_t>{0});
    REQUIRE(batch.num_targets == 0);
    for (int d = 0; d < 8; ++d) batch.append(ids(8, d));
    REQUIRE(batch.num_targets == 56);
  }
  REQUIRE(batch.tokens.data() == tokens);
  REQUIRE(batch.targets.data() == targets);
  REQUIRE(batch.positions.data() == positions);
  REQUIRE(batch.offsets.data() == offsets);
  REQUIRE(batch.documents.data() == documents);
}

TEST_CASE("a padded matrix is read by length and never by pad id", "[data][padded][U16]") {
  ids const matrix{5, 6, 2, 2, 2, 7, 2, 2, 9, 2};  // pad = end of text = 2
  ac::data::ragged_batch batch;
  std::array<ac::index_t, 2> const lengths{3, 4};
  ac::data::append_padded(batch, {matrix.data(), {2, 5}}, lengths);
  REQUIRE(batch.tokens == ids{5, 6, 2, 7, 2, 2, 9});
  REQUIRE(batch.targets == ids{6, 2, -1, 2, 2, 9, -1});
  REQUIRE(batch.num_targets == 5);
}

TEST_CASE("right padding changes nothing that a loss is made of", "[data][padded][U02]") {
  std::array<ac::index_t, 2> const lengths{3, 4};
  ids const first{5, 6, 2}, second{7, 2, 2, 9};
  auto const padded = [&](std::size_t columns, std::int32_t pad) {
    ids matrix(2 * columns, pad);
    std::copy(first.begin(), first.end(), matrix.begin());
    std::copy(second.begin(), second.end(), matrix.begin() + std::ptrdiff_t(columns));
    ac::data::ragged_batch batch;
    ac::data::append_padded(batch, {matrix.data(), {2, ac::index_t(columns)}}, lengths);
    return batch;
  };
  auto const plain = padded(4, 0);
  for (std::size_t columns : {4u, 5u, 11u})
    for (std::int32_t pad : {0, 2, 9, -100}) {
      auto const batch = padded(columns, pad);
      CHECK(batch.tokens == plain.tokens);
      CHECK(batch.targets == plain.targets);
      CHECK(batch.offsets == plain.offsets);
      CHECK(batch.num_targets == 5);
    }
}

TEST_CASE("a padded matrix refuses lengths that do not fit", "[data][padded]") {
  ids const matrix{1, 2, 3, 4};
  ac::data::ragged_batch batch;
  ac::view<std::int32_t const, 2> const rows(matrix.data(), {2, 2});
  REQUIRE_THROWS_WITH(ac::data::append_padded(batch, rows, std::array<ac::index_t, 1>{1}),
                      ContainsSubstring("got 1 lengths, expected 2"));
  REQUIRE_THROWS_WITH(ac::data::append_padded(batch, rows, std::array<ac::index_t, 2>{1, 3}),
                      ContainsSubstring("got length 3 for row 1, expected 0 to 2"));
  REQUIRE_THROWS_AS(ac::data::append_padded(batch, rows, std::array<ac::index_t, 2>{-1, 2}), ac::shape_error);
  REQUIRE(batch.empty());
}

TEST_CASE("a mask becomes lengths, and left padding is refused", "[data][padded][U42]") {
  ids const right{1, 1, 1, 0, 0, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0};
  REQUIRE(ac::data::lengths_from_mask({right.data(), {3, 5}}) == std::vector<ac::index_t>{3, 5, 0});
  ids const left{0, 0, 1, 1, 1};
  REQUIRE_THROWS_WITH(ac::data::lengths_from_mask({left.data(), {1, 5}}),
                      ContainsSubstring("row 0, column 2") && ContainsSubstring("left padding"));
  ids const hole{1, 0, 1, 1, 1};
  REQUIRE_THROWS_AS(ac::data::lengths_from_mask({hole.data(), {1, 5}}), ac::shape_error);
}

TEST_CASE("a mean over a ragged set does not depend on the batch size", "[data][ragged_batch][U24]") {
  // A stand-in for a loss: 2 on each of the first document's four targets, 7 on the second's only one.
  std::vector<ids> const documents{{1, 1, 1, 1, 1}, {9, 9}};
  auto const loss = [](ac::data::ragged_batch const& batch) {
    double sum = 0;
    for (std::size_t i = 0; i < batch.tokens.size(); ++i)
      if (batch.targets[i] != ac::ignore_target) sum += batch.tokens[i] == 1 ? 2.0 : 7.0;
    return sum;
  };
  for (std::size_t size : {1u, 2u, 8u}) {
    double sum = 0;
    ac::index_t targets = 0;
    for (std::size_t first = 0; first < documents.size(); first += size) {
      ac::data::ragged_batch batch;
      for (std::size_t d = first; d < documents.size() && d < first + size; ++d) batch.append(documents[d]);
      sum += loss(batch);
      targets += batch.num_targets;
    }
    REQUIRE(sum / double(targets) == 3.0);
  }
}

TEST_CASE("ids outside of the vocabulary are named with position and value", "[data][ragged_batch][U21]") {
  using ac::data::check_ids;
  using ac::data::check_targets;
  check_ids(ids{0, 4}, 5, "here");
  check_targets(ids{0, 4, -1}, 5, "here");
  REQUIRE_THROWS_WITH(check_targets(ids{1, -4}, 5, "here"),
                      ContainsSubstring("target -4 at position 1") && ContainsSubstring("< 5"));
  REQUIRE_THROWS_WITH(check_targets(ids{5}, 5, "here"), ContainsSubstring("target 5 at position 0"));
  REQUIRE_THROWS_WITH(check_targets(ids{1, 2, 151936}, 5, "here"),
                      ContainsSubstring("target 151936 at position 2"));
  REQUIRE_THROWS_WITH(check_ids(ids{1, 5}, 5, "here"), ContainsSubstring("token id 5 at position 1"));
  REQUIRE_THROWS_AS(check_ids(ids{-1}, 5, "here"), ac::config_error);
  ac::data::ragged_batch batch;
  batch.append(ids{1, 2});
  check_ids(batch, 3);
  REQUIRE_THROWS_AS(check_ids(batch, 2), ac::config_error);
}

TEST_CASE("token ids keep more than sixteen bits", "[data][ragged_batch][U54]") {
  ids const wide{0, 65535, 65536, 151643, 151935};
  ac::data::ragged_batch batch;
  batch.append(wide);
  REQUIRE(batch.tokens == wide);
  REQUIRE(batch.targets == ids{65535, 65536, 151643, 151935, -1});
}
