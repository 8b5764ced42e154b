#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "accrete/growth/curriculum.hpp"
#include "accrete/growth/freeze.hpp"
#include "accrete/growth/joint.hpp"
#include "accrete/train/trainer.hpp"
#include "support/catch.hpp"
#include "support/tiny_run.hpp"

using namespace accrete;
using test::own_schedule;
using test::relative;
using test::same_bits;
using test::tiny_recipe;
using test::tiny_run;

namespace {

using placement::post;
using placement::pre;

/// All that training knows of one parameter.
struct state {
  std::string name;
  std::vector<double> value, gradient, moment1, moment2;
  std::int64_t updates;
  bool trains;
};
template <class Student>
std::vector<state> states_of(Student& s) {
  std::vector<state> all;
  s.parameters([&](auto& p) {
    auto const numbers = [](auto& t) {
      return t.empty() ? std::vector<double>{} : test::named("", t.view()).numbers;
    };
    all.push_back({p.name(), numbers(p.value), numbers(p.gradient), numbers(p.moment1), numbers(p.moment2),
                   p.updates, p.trainable()});
  });
  return all;
}
state const* find(std::vector<state> const& all, std::string const& name) {
  for (auto const& s : all)
    if (s.name == name) return &s;
  return nullptr;
}
bool all_zero(std::vector<double> const& v) {
  return std::all_of(v.begin(), v.end(), [](double x) { return x == 0; });
}

/// What a run looks like from its events: before each phase's first update, and after each update.
struct seen {
  std::vector<state> states;
  data::order_state order;
};
template <class P, class S>
struct watched_run {
  std::optional<tiny_run<P, S>> run;
  std::vector<seen> at_begin;                       // [phases]
  std::vector<seen> after;                          // [updates]
  std::vector<data::ragged_batch> first_batches;    // [phases] where the plan says the text goes on
  std::vector<distillation::loss_sums> first_sums;  // [phases] of the untouched student on them
  train::run_result result;

  explicit watched_run(recipe const& r) {
    train::run_events events;
    events.on_note = [this](std::string const& text) {
      if (text.find("phase ") != 0) return;  // the run may have more to say
      at_begin.push_back({states_of(run->student), run->trainer.order_state()});
      auto documents = run->documents();
      documents.restore(run->trainer.order_state());
      data::ragged_batch next;
      documents.next_batch(next, run->recipe.batch_tokens);
      first_sums.push_back(test::sums_by_hand(*run, next));
      first_batches.push_back(next);
    };
    events.on_step = [this](train::step_record const&) {
      after.push_back({states_of(run->student), run->trainer.order_state()});
    };
    run.emplace(r, events);
    result = run->go();
  }

  /// Updates done before phase p.
  [[nodiscard]] std::size_t first(int p) const {
    return std::size_t(train::phases_of(growth::plan_view(S::plan), run->recipe)[std::size_t(p)].first);
  }
};

/// What the plan says of every transition, held against what happened.
template <class P, class S>
void check_transitions(recipe const& r) {
  watched_run<P, S> w(r);
  CAPTURE(w.result.student);
  REQUIRE(w.result.finished);
  REQUIRE(int(w.at_begin.size()) == S::plan.num_phases());
  // Blocks are drawn as if they had been there from the start.
  auto t = test::tiny_teacher<reference::backend<double>>();
  student<P, growth::joint<S::plan.num_blocks, S::plan.layers_per_block>, reference::backend<double>> whole(
      t, r.seed);
  auto const drawn = states_of(whole);

  for (int p = 0; p < S::plan.num_phases(); ++p) {
    auto const& phase = S::plan.phases[std::size_t(p)];
    auto const& begin = w.at_begin[std::size_t(p)];
    CAPTURE(p);
    // The first batch is the one the iterator's state says.
    auto const& record = w.result.steps[w.first(p)];
    auto const& batch = w.first_batches[std::size_t(p)];
    auto const& sums = w.first_sums[std::size_t(p)];
    CHECK(record.tokens == batch.num_tokens());
    CHECK(relative(record.kd, sums.mean_kd()) < 1e-12);
    CHECK(relative(record.ce, sums.mean_ce()) < 1e-12);
    if (p == 0) {
      CHECK(begin.order == data::order_state{});
      continue;
    }
    auto const& end = w.after[w.first(p) - 1];
    for (auto const& now : begin.states) {
      CAPTURE(now.name);
      auto const* const old = find(end.states, now.name);
      if (old == nullptr) {
        CHECK(now.trains);
        CHECK(now.updates == 0);
        CHECK((all_zero(now.moment1) && all_zero(now.moment2) && all_zero(now.gradient)));
        REQUIRE(find(drawn, now.name) != nullptr);
        CHECK(same_bits(now.value, find(drawn, now.name)->value));
        continue;
      }
      CHECK(same_bits(now.value, old->value));
      CHECK((old->updates > 0) == old->trains);
      if (!now.trains) {
        CHECK((now.gradient.empty() && now.moment1.empty() && now.moment2.empty()));
      } else if (phase.optimizer == growth::optimizer_state::keep) {
        CHECK(now.updates == old->updates);
        CHECK((same_bits(now.moment1, old->moment1) && same_bits(now.moment2, old->moment2)));
        CHECK_FALSE(all_zero(now.moment1));
      } else {
        CHECK(now.updates == 0);
        CHECK((all_zero(now.moment1) && all_zero(now.moment2)));
      }
    }
    CHECK(begin.order == (phase.data == growth::data_order::reset ? data::order_state{} : end.order));
    if (phase.data == growth::data_order::reset)
      CHECK(batch.documents == w.first_batches[0].documents);
    else
      CHECK(batch.documents != w.first_batches[0].documents);
  }
}

/// Learning rates of a run, phase by phase.
template <class S>
std::vector<double> rates_of(recipe const& r) {
  tiny_run<pre, S> run(r);
  std::vector<double> rates;
  for (auto const& s : run.go().steps) rates.push_back(s.learning_rate);
  return rates;
}

/// Counted by walking over the shard once more, with a set of the documents seen.
template <class S>
train::token_counts counts_by_hand(tiny_run<pre, S> const& run) {
  train::token_counts c;
  std::set<index_t> seen;
  auto documents = run.documents();
  data::ragged_batch batch;
  auto const phases = train::phases_of(growth::plan_view(S::plan), run.recipe);
  for (int p = 0; p < S::plan.num_phases(); ++p) {
    if (p > 0 && S::plan.phases[std::size_t(p)].data == growth::data_order::reset) documents.reset();
    for (index_t i = 0; i < phases[std::size_t(p)].count; ++i) {
      documents.next_batch(batch, run.recipe.batch_tokens);
      c.total += batch.num_tokens();
      c.active_layer += double(batch.num_tokens() * S::plan.active_layers(p));
      for (index_t d = 0; d < batch.num_documents(); ++d)
        if (seen.insert(batch.documents[std::size_t(d)]).second) c.unique += index_t(batch.document(d).size());
    }
  }
  return c;
}

}  // namespace

TEST_CASE("a transition does to weights, optimizer and text what the plan says", "[train][growth]") {
  auto const r = tiny_recipe(4);
  check_transitions<pre, growth::curriculum<3, 1>>(r);
  check_transitions<post, growth::curriculum<3, 1>>(r);
  check_transitions<pre, growth::curriculum<2, 2, growth::data_order::reset>>(r);
  check_transitions<post, growth::freeze<3, 1>>(r);
  check_transitions<pre, growth::freeze<3, 1>::strict>(r);
  check_transitions<pre, own_schedule>(r);
  check_transitions<pre, growth::joint<2, 1>::restarted<3>>(r);
  check_transitions<pre, growth::joint<2, 1>::restarted<2, growth::optimizer_state::reset>>(r);
}

TEST_CASE("a transition restarts the learning rate or lets it proceed, as the plan says", "[train][growth]") {
  auto r = tiny_recipe(4);
  r.warmup = 0.5;
  r.peak_learning_rate = 0.1;
  r.min_learning_rate = 0.02;
  auto const near = [](double a, double b) { return std::abs(a - b) < 1e-15; };
  auto const grown = rates_of<growth::curriculum<2, 1>>(r);
  REQUIRE(grown.size() == 8);
  for (std::size_t first : {0u, 4u}) {
    CHECK(near(grown[first], 0.05));
    CHECK(near(grown[first + 1], 0.1));
    CHECK(near(grown[first + 2], 0.1));
    CHECK(near(grown[first + 3], 0.02));
  }
  // Phases of 4 and 2 updates share one schedule of 6: warmup 3, then 4, 5, 6 at 1, 1/2 and 0 of the way.
  auto const own = rates_of<own_schedule>(r);
  REQUIRE(own.size() == 12);
  CHECK(near(own[2], 0.1));
  CHECK(near(own[3], 0.1));
  CHECK(near(own[4], 0.06));
  CHECK(near(own[5], 0.02));
  CHECK(near(own[6], 0.1 / 3));
  CHECK(near(own[11], 0.02));
}

TEMPLATE_TEST_CASE("what a phase freezes keeps its bits and has no memory for training", "[train][growth]", pre,
                   post, placement::hybrid) {
  auto const check = [&]<class S>(S, bool ends_train) {
    watched_run<TestType, S> w(tiny_recipe(4));
    for (int p = 1; p < 3; ++p) {
      auto const& begin = w.at_begin[std::size_t(p)].states;
      auto const& end = w.after[w.first(p) + 3].states;
      REQUIRE(begin.size() == end.size());
      int frozen = 0;
      for (std::size_t i = 0; i < begin.size(); ++i) {
        auto const& name = begin[i].name;
        bool const in_layer = name.find("model.layers.") == 0;
        bool const newest = name.find("model.layers." + std::to_string(p) + ".") == 0;
        bool const trains = in_layer ? newest : ends_train;
        CAPTURE(w.result.student, p, name);
        CHECK(end[i].trains == trains);
        CHECK(same_bits(end[i].value, begin[i].value) == !trains);
        CHECK((end[i].gradient.empty() && end[i].moment1.empty() && end[i].moment2.empty()) == !trains);
        CHECK(end[i].updates == (trains ? 4 : 0));
        frozen += !trains;
      }
      CHECK(frozen >= p * 6);
    }
  };
  check(growth::freeze<3, 1>{}, true);
  check(growth::freeze<3, 1>::strict{}, false);
}

TEST_CASE("a run counts its tokens: all, those seen first, and those times active layers", "[train][growth]") {
  auto const check = []<class S>(S) {
    tiny_run<pre, S> run(tiny_recipe(4));
    auto const expected = counts_by_hand(run);
    auto const result = run.go();
    CAPTURE(result.student);
    auto const got = result.evaluations.back().tokens;
    CHECK(got.total == expected.total);
    CHECK(got.unique == expected.unique);
    CHECK(got.active_layer == expected.active_layer);
    index_t logged = 0;
    for (auto const& s : result.steps) logged += s.tokens;
    CHECK(got.total == logged);
    CHECK(run.trainer.counts().total == got.total);
    return got;
  };
  auto const joint = check(growth::joint<3, 1>{});
  CHECK((joint.unique == joint.total && joint.active_layer == 3.0 * double(joint.total)));
  auto const grown = check(growth::curriculum<3, 1>{});
  CHECK((grown.unique == joint.total && grown.total > 2 * joint.total));
  check(growth::curriculum<3, 1, growth::data_order::reset>{});
  check(own_schedule{});
  auto const fresh = check(growth::joint<3, 1>::restarted<2>{});
  CHECK((fresh.unique == fresh.total && fresh.total > joint.total));
}

TEST_CASE("a control on fresh text starts with the batches of the run it controls", "[train][growth]") {
  auto const r = tiny_recipe(4);
  tiny_run<pre, growth::joint<2, 1>> one(r);
  tiny_run<pre, growth::joint<2, 1>::restarted<2>> two(r);
  auto const first = one.go(), both = two.go();
  REQUIRE(first.steps.size() == 4);
  REQUIRE(both.steps.size() == 8);
  CHECK(test::same_records({both.steps.begin(), both.steps.begin() + 4}, first.steps));
  CHECK(both.evaluations[0].ce == first.evaluations[0].ce);
  // The second unit is text of its own.
  REQUIRE(two.data.shard.size() > one.data.shard.size());
  CHECK(std::equal(one.data.shard.begin(), one.data.shard.end(), two.data.shard.begin()));
  std::set<index_t> const all(two.data.shard.begin(), two.data.shard.end());
  CHECK(all.size() == two.data.shard.size());
}

TEST_CASE("a growing run trains its first phase as a shallow student of the same blocks", "[train][growth]") {
  auto const r = tiny_recipe(4);
  tiny_run<pre, growth::curriculum<3, 1>> grown(r);
  tiny_run<pre, growth::joint<1, 1>> shallow(r);
  auto const all = grown.go(), alone = shallow.go();
  CHECK(test::same_records({all.steps.begin(), all.steps.begin() + 4}, alone.steps));
}

TEST_CASE("a phase's memory is laid out as predicted, to the last byte", "[train][growth]") {
  tiny_run<pre, growth::curriculum<3, 1>> run(tiny_recipe());
  std::size_t before = 0;
  for (int p = 0; p < 3; ++p) {
    run.trainer.begin_phase(p);
    auto const& memory = run.trainer.step_memory().memory;
    CHECK(memory.used() == memory.capacity());
    CHECK(memory.capacity() > before);
    before = memory.capacity();
    auto* const block = run.trainer.step_memory().embedded.data;
    (void)run.trainer.update(p, p + 1, 1, 0.01);
    CHECK(run.trainer.step_memory().embedded.data == block);  // an update works in what is there
    CHECK(memory.used() == memory.capacity());
  }
}
