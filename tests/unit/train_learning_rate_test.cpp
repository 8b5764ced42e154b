#include "accrete/train/learning_rate.hpp"

#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "accrete/growth/curriculum.hpp"
#include "accrete/growth/joint.hpp"
#include "accrete/train/phases.hpp"
#include "support/catch.hpp"

using namespace accrete;
using train::cosine_schedule;
using train::phases_of;
using train::warmup_updates;

namespace {

bool near(double a, double b) {
  return std::abs(a - b) < 1e-15;
}

/// Three phases; the learning rate goes on from the first to the second and starts over at the third.
struct mixed {
  static constexpr growth::plan<3> plan{
      3,
      1,
      {{{.length = 1.0, .active_blocks = 1},
        {.length = 0.25, .active_blocks = 2, .rate = growth::learning_rate::proceed},
        {.length = 2.0, .active_blocks = 3, .rate = growth::learning_rate::restart}}}};
};
struct never_restarts {
  static constexpr growth::plan<2> plan{
      2, 1, {{{.active_blocks = 1}, {.active_blocks = 2, .rate = growth::learning_rate::proceed}}}};
};

}  // namespace

TEST_CASE("learning rate warms up from update 1 and stays at the peak once", "[train][learning_rate][U51]") {
  cosine_schedule const s{.peak = 0.1, .minimum = 0, .warmup = 4, .total = 100};
  CHECK(near(s.at(1), 0.025));
  CHECK(near(s.at(2), 0.05));
  CHECK(near(s.at(3), 0.075));
  CHECK(near(s.at(4), 0.1));
  CHECK(near(s.at(5), 0.1));
  CHECK(s.at(6) < 0.1);
}

TEST_CASE("learning rate falls by half a cosine to the minimum, which the last update reaches",
          "[train][learning_rate][U51]") {
  cosine_schedule const s{.peak = 0.1, .minimum = 0.02, .warmup = 4, .total = 13};
  // Updates 5 to 13 are eight steps of the cosine's argument.
  for (int i = 0; i <= 8; ++i) CHECK(near(s.at(5 + i), 0.02 + 0.04 * (1 + std::cos(std::numbers::pi * i / 8))));
  CHECK(near(s.at(9), 0.06));
  CHECK(near(s.at(13), 0.02));
  CHECK(near(s.at(14), 0.02));  // past the end: nothing wraps around
}

TEST_CASE("learning rate is a number however short the schedule is", "[train][learning_rate][U51]") {
  for (index_t total : {1, 2, 3, 4}) {
    for (index_t warmup = 1; warmup <= total; ++warmup) {
      cosine_schedule const s{.peak = 0.1, .minimum = 0.01, .warmup = warmup, .total = total};
      for (index_t u = 1; u <= total; ++u) {
        CAPTURE(total, warmup, u);
        CHECK(s.at(u) > 0.0099);
        CHECK(s.at(u) < 0.1001);
      }
      // With a single update after the warmup there is no way down: it is the one at the peak.
      if (warmup + 2 <= total) CHECK(near(s.at(total), 0.01));
    }
  }
  CHECK(cosine_schedule{.peak = 0.1, .minimum = 0.01, .warmup = 1, .total = 1}.at(1) == 0.1);
}

TEST_CASE("warmup is a tenth of short schedules and the paper's share of long ones, at least one update",
          "[train][learning_rate]") {
  CHECK(warmup_updates(-1, 300) == 30);
  CHECK(warmup_updates(-1, 1999) == 200);
  CHECK(warmup_updates(-1, 2000) == 30);
  CHECK(warmup_updates(-1, 50000) == 750);
  CHECK(warmup_updates(-1, 1) == 1);
  CHECK(warmup_updates(-1, 4) == 1);
  CHECK(warmup_updates(0, 300) == 1);
  CHECK(warmup_updates(0.25, 300) == 75);
  CHECK(warmup_updates(1, 300) == 300);
  CHECK(warmup_updates(0.015, 50000) == 750);
}

TEST_CASE("phases cut a run by the plan's lengths and share a learning rate that proceeds",
          "[train][learning_rate]") {
  recipe const r{.steps = 40, .peak_learning_rate = 0.1, .min_learning_rate = 0.01};
  auto const p = phases_of(growth::plan_view(mixed::plan), r);
  REQUIRE(p.size() == 3);
  CHECK((p[0].first == 0 && p[0].count == 40));
  CHECK((p[1].first == 40 && p[1].count == 10));
  CHECK((p[2].first == 50 && p[2].count == 80));
  CHECK(train::total_updates(p) == 130);
  // One schedule over phases 0 and 1, one of its own for phase 2.
  CHECK((p[0].schedule_first == 0 && p[1].schedule_first == 0 && p[2].schedule_first == 50));
  CHECK((p[0].rate.total == 50 && p[1].rate.total == 50 && p[2].rate.total == 80));
  CHECK((p[0].rate.warmup == 5 && p[1].rate.warmup == 5 && p[2].rate.warmup == 8));
  auto const at = [&](std::size_t phase, index_t i) {
    return p[phase].rate.at(p[phase].first + i - p[phase].schedule_first);
  };
  CHECK(near(at(0, 1), 0.02));
  CHECK(at(1, 1) < at(0, 40));  // no warmup in between
  CHECK(near(at(1, 10), 0.01));
  CHECK(near(at(2, 1), 0.0125));
  CHECK(near(at(2, 8), 0.1));
  CHECK(near(at(2, 80), 0.01));
}

TEST_CASE("phases of the study's schedules restart their learning rate", "[train][learning_rate]") {
  recipe const r{.steps = 20, .peak_learning_rate = 0.1, .min_learning_rate = 0.01};
  auto const check = [&](growth::plan_view plan, int num_phases) {
    auto const all = phases_of(plan, r);
    REQUIRE(int(all.size()) == num_phases);
    for (auto const& p : all) {
      CHECK(p.count == 20);
      CHECK(p.schedule_first == p.first);
      CHECK((p.rate.total == 20 && p.rate.warmup == 2));
      CHECK(near(p.rate.at(1), 0.05));
    }
  };
  check(growth::plan_view(growth::curriculum<3, 3>::plan), 3);
  check(growth::plan_view(growth::joint<3, 3>::restarted<2>::plan), 2);
  auto const one = phases_of(growth::plan_view(never_restarts::plan), r);
  CHECK((one[1].schedule_first == 0 && one[1].rate.total == 40));
}

TEST_CASE("a phase has an update however short the run is", "[train][learning_rate]") {
  auto const p = phases_of(growth::plan_view(mixed::plan), recipe{.steps = 1});
  CHECK((p[0].count == 1 && p[1].count == 1 && p[2].count == 2));
  CHECK((p[1].first == 1 && p[2].first == 2));
}

TEST_CASE("a shard holds one unit of text where it is replayed and all of it where it is fresh",
          "[train][learning_rate]") {
  recipe const r{.steps = 20};
  CHECK(train::shard_updates(growth::plan_view(growth::curriculum<3, 3>::plan), r) == 20);
  CHECK(train::shard_updates(growth::plan_view(growth::joint<3, 3>::plan), r) == 20);
  CHECK(train::shard_updates(growth::plan_view(growth::joint<3, 3>::restarted<2>::plan), r) == 40);
}
