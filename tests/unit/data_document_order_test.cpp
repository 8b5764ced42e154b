#include <accrete/data/document_order.hpp>
#include <algorithm>
#include <cstdint>
#include <vector>

#include "support/catch.hpp"

namespace ac = accrete;
using ac::index_t;
using ac::data::corpus;
using ac::data::document_iterator;
using ac::data::document_pool;
using ac::data::ragged_batch;
using Catch::Matchers::ContainsSubstring;
using ids = std::vector<std::int32_t>;

namespace {
corpus some_corpus(int documents, int shortest = 2, int spread = 7) {
  corpus all;
  for (int d = 0; d < documents; ++d)
    all.append(ids(std::size_t(shortest + (d * 5) % spread), d), {ac::data::cutting::first, 1024});
  return all;
}
std::vector<ids> batches(document_iterator& it, int count, ac::index_t capacity) {
  std::vector<ids> all;
  ragged_batch batch;
  for (int i = 0; i < count; ++i) {
    it.next_batch(batch, capacity);
    all.push_back(batch.tokens);
  }
  return all;
}
}  // namespace

TEST_CASE("the order of an epoch is a function of seed and epoch only", "[data][document_order][U55]") {
  corpus const all = some_corpus(10);
  auto const shard = whole_shard(all, ac::seed{42});
  document_iterator walked(all, shard, ac::seed{42});
  std::vector<ac::data::shard> orders;
  ragged_batch batch;
  while (orders.size() < 4) {
    walked.next_batch(batch, 16);
    if (walked.at_end_of_epoch()) orders.push_back(walked.order());
  }
  document_iterator fresh(all, shard, ac::seed{42});
  fresh.restore({3, 0});
  REQUIRE(fresh.order() == orders[3]);
  fresh.restore({1, 0});
  REQUIRE(fresh.order() == orders[1]);
  fresh.reset();
  REQUIRE(fresh.order() == shard);
  for (std::size_t a = 0; a < 4; ++a) {
    auto sorted = orders[a];
    std::sort(sorted.begin(), sorted.end());
    REQUIRE(sorted == ac::data::shard{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
    for (std::size_t b = 0; b < a; ++b) REQUIRE(orders[a] != orders[b]);
  }
  REQUIRE(whole_shard(all, ac::seed{43}) != shard);
}

TEST_CASE("an epoch shows each document once and whole", "[data][document_order]") {
  corpus const all = some_corpus(50);
  document_iterator it(all, whole_shard(all, ac::seed{1}), ac::seed{1});
  for (int epoch = 0; epoch < 3; ++epoch) {
    std::vector<int> seen(50, 0);
    ragged_batch batch;
    do {
      it.next_batch(batch, 20);
      REQUIRE(batch.num_tokens() <= 20);
      REQUIRE_FALSE(batch.empty());
      for (ac::index_t d = 0; d < batch.num_documents(); ++d) {
        auto const number = batch.documents[std::size_t(d)];
        ++seen[std::size_t(number)];
        REQUIRE(std::ranges::equal(batch.document(d), all.document(number)));
      }
      REQUIRE(it.state().epoch == epoch);
    } while (!it.at_end_of_epoch());
    REQUIRE(seen == std::vector<int>(50, 1));
  }
}

TEST_CASE("a batch takes documents until the next does not fit", "[data][document_order]") {
  corpus const all = some_corpus(30, 4, 1);  // 4 tokens each
  document_iterator it(all, whole_shard(all, ac::seed{1}), ac::seed{1});
  ragged_batch batch;
  it.next_batch(batch, 12);
  REQUIRE(batch.num_documents() == 3);
  it.next_batch(batch, 15);
  REQUIRE(batch.num_documents() == 3);
  it.next_batch(batch, 16);
  REQUIRE(batch.num_documents() == 4);
  REQUIRE(it.state() == ac::data::order_state{0, 10});
}

TEST_CASE("a saved state continues with the same batches", "[data][document_order][U55]") {
  corpus const all = some_corpus(23);
  auto const shard = whole_shard(all, ac::seed{5});
  document_iterator it(all, shard, ac::seed{5});
  batches(it, 17, 16);
  auto const saved = it.state();
  auto const expected = batches(it, 20, 16);
  document_iterator resumed(all, shard, ac::seed{5});
  resumed.restore(saved);
  REQUIRE(batches(resumed, 20, 16) == expected);
}

TEST_CASE("a shard for some steps is what these steps use", "[data][document_order]") {
  corpus const all = some_corpus(200);
  auto const shard = shard_for(all, whole_shard(all, ac::seed{3}), 12, 20);
  document_iterator it(all, shard, ac::seed{3});
  auto const phase = batches(it, 12, 20);
  REQUIRE(it.at_end_of_epoch());
  REQUIRE(it.state().epoch == 0);

  // A control on fresh data starts with the same batches and goes on with other documents.
  auto const longer = shard_for(all, whole_shard(all, ac::seed{3}), 36, 20);
  REQUIRE(std::equal(shard.begin(), shard.end(), longer.begin()));
  document_iterator control(all, longer, ac::seed{3});
  REQUIRE(batches(control, 12, 20) == phase);
  document_iterator whole(all, whole_shard(all, ac::seed{3}), ac::seed{3});
  REQUIRE(batches(whole, 12, 20) == phase);

  // A replay shows the same documents in another order; a reset shows the same batches.
  auto const replay = batches(it, 12, 20);
  REQUIRE(replay != phase);
  it.reset();
  REQUIRE(batches(it, 12, 20) == phase);
}

TEST_CASE("runs of every seed draw from one pool", "[data][document_order]") {
  corpus const all = some_corpus(200);
  index_t const steps = 6, capacity = 20;
  auto const sorted = [](auto documents) {
    std::sort(documents.begin(), documents.end());
    return documents;
  };
  document_pool const pool(all, ac::seed{0}, steps, steps, capacity);
  index_t tokens = 0;
  for (auto d : pool.documents()) tokens += all.length(d);
  REQUIRE(tokens >= steps * capacity);
  REQUIRE(tokens - all.length(pool.documents().back()) < steps * capacity);

  auto const one = pool.order(ac::seed{1}), other = pool.order(ac::seed{2});
  REQUIRE(one == pool.order(ac::seed{1}));
  REQUIRE(one != other);
  REQUIRE(sorted(one) == sorted(pool.documents()));
  REQUIRE(sorted(other) == sorted(pool.documents()));

  // A pool of three times the updates serves the shorter run with the same batches.
  document_pool const longer(all, ac::seed{0}, steps, 3 * steps, capacity);
  for (auto s : {ac::seed{1}, ac::seed{2}}) {
    auto const shard = shard_for(all, pool.order(s), steps, capacity);
    REQUIRE(shard == shard_for(all, longer.order(s), steps, capacity));
    auto const whole = shard_for(all, longer.order(s), 3 * steps, capacity);
    REQUIRE(std::equal(shard.begin(), shard.end(), whole.begin()));
    auto const distinct = sorted(whole);
    REQUIRE(std::adjacent_find(distinct.begin(), distinct.end()) == distinct.end());
  }

  // Where the corpus ends before, the pool is all of it, and the run is what is refused.
  document_pool const short_of(all, ac::seed{0}, 10000, 10000, capacity);
  REQUIRE(sorted(short_of.documents()) == sorted(whole_shard(all, ac::seed{0})));
  REQUIRE_THROWS_WITH(shard_for(all, short_of.order(ac::seed{1}), 10000, capacity),
                      ContainsSubstring("10000 steps of up to 20 tokens"));
}

TEST_CASE("a corpus too small for the steps asked is refused with both numbers",
          "[data][document_order][U58]") {
  for (int tokens : {5, 64, 65, 0}) {
    corpus all;
    all.append(ids(std::size_t(tokens), 1), {ac::data::cutting::windows, 64});
    REQUIRE_THROWS_WITH(shard_for(all, whole_shard(all, ac::seed{1}), 10, 64),
                        ContainsSubstring("(" + std::to_string(tokens == 65 ? 64 : tokens) + " tokens") &&
                            ContainsSubstring("10 steps of up to 64 tokens") &&
                            ContainsSubstring("fewer steps"));
    if (tokens > 0) REQUIRE(shard_for(all, whole_shard(all, ac::seed{1}), 1, 64).size() == 1);
    if (tokens == 0)
      REQUIRE_THROWS_AS(document_iterator(all, whole_shard(all, ac::seed{1}), ac::seed{1}), ac::config_error);
  }
}

TEST_CASE("a document longer than the capacity is refused with both numbers", "[data][document_order]") {
  corpus all;
  all.append(ids(65, 1), {ac::data::cutting::first, 1024});
  document_iterator it(all, whole_shard(all, ac::seed{1}), ac::seed{1});
  ragged_batch batch;
  REQUIRE_THROWS_WITH(it.next_batch(batch, 64), ContainsSubstring("65 tokens") && ContainsSubstring("most 64"));
  REQUIRE_THROWS_AS(shard_for(all, whole_shard(all, ac::seed{1}), 1, 64), ac::config_error);
  it.next_batch(batch, 65);
  REQUIRE(batch.num_tokens() == 65);
}

TEST_CASE("a state or shard from elsewhere is refused", "[data][document_order]") {
  corpus const all = some_corpus(5);
  REQUIRE_THROWS_AS(document_iterator(all, {0, 5}, ac::seed{1}), ac::config_error);
  document_iterator it(all, {0, 1, 2}, ac::seed{1});
  REQUIRE_THROWS_AS(it.restore({0, 4}), ac::config_error);
  REQUIRE_THROWS_AS(it.restore({-1, 0}), ac::config_error);
}
