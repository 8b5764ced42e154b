#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "accrete/core/error.hpp"
#include "accrete/growth/curriculum.hpp"
#include "accrete/growth/freeze.hpp"
#include "accrete/growth/joint.hpp"
#include "accrete/model/student.hpp"
#include "accrete/reference/backend.hpp"
#include "support/catch.hpp"
#include "support/step_by_hand.hpp"

using namespace accrete;

namespace {

using backend_type = reference::backend<double>;
using curriculum = growth::curriculum<3, 1>;
using freeze = growth::freeze<3, 1>;
using strict = growth::freeze<3, 1>::strict;
using joint = growth::joint<3, 1>;

template <class P, class S>
using student_of = student<P, S, backend_type>;

template <class Student>
void train(teacher<backend_type>& t, Student& s, data::ragged_batch const& batch, int steps) {
  test::step_by_hand d(t, s, batch);
  for (int i = 0; i < steps; ++i) {
    test::zero_gradients(s);
    d.step();
    test::descend(s, 0.1);
  }
}

test::snapshot layer_values(auto& s, int l) {
  return test::values_of(s.stack().layers()[std::size_t(l)]);
}
test::snapshot end_values(auto& s) {
  test::snapshot all;
  for (auto* gains : {&s.stack().entry_gains(), &s.stack().readout_gains()})
    for (auto& g : *gains) all.push_back(test::named(g.name(), g.value.view()));
  all.push_back(test::named("head", s.head().value.view()));
  return all;
}
/// Gradient and moments: all there, or none.
bool trains(auto& model) {
  int with = 0, without = 0;
  model.parameters([&](auto& p) {
    bool const whole = p.gradient.size() == p.value.size() && p.moment1.size() == p.value.size() &&
                       p.moment2.size() == p.value.size();
    with += whole;
    without += p.gradient.empty() && p.moment1.empty() && p.moment2.empty();
  });
  REQUIRE((with == 0) != (without == 0));
  return with > 0;
}
bool ends_train(auto& s) {
  bool train = s.head().trainable();
  for (auto* gains : {&s.stack().entry_gains(), &s.stack().readout_gains()})
    for (auto& g : *gains) {
      REQUIRE(g.trainable() == train);
      REQUIRE(g.moment1.empty() != train);
    }
  return train;
}

using grown_placements =
    std::tuple<placement::pre, placement::post, placement::hybrid, placement::mix, placement::residual>;

/// Gradients of a frozen phase, through whatever is frozen.
template <class Placement, class Schedule>
void check_gradients(int phase) {
  auto t = test::tiny_teacher<backend_type>({.qk_norm = true});
  student_of<Placement, Schedule> s(t, seed{42});
  for (int p = 1; p <= phase; ++p) s.begin_phase(p);
  test::enlarge_weights(s);
  auto const batch = test::random_batch({3, 1, 5, 2});
  test::step_by_hand d(t, s, batch);
  test::poison(d.workspace);
  for (auto const& r : test::gradient_reports(s, d)) {
    CAPTURE(s.name(), phase, r.name);
    CHECK(r.size > 1e-3);
    CHECK(r.error < 1e-6);
  }
}

}  // namespace

TEMPLATE_LIST_TEST_CASE(
    "a transition leaves old weights alone and draws the new block as a joint student would", "[model][growth]",
    grown_placements) {
  auto t = test::tiny_teacher<backend_type>();
  auto const batch = test::random_batch({3, 1, 5});
  student_of<TestType, joint> all(t, seed{42});
  auto grown = [&]<class Schedule>(Schedule) {
    student_of<TestType, Schedule> s(t, seed{42});
    CAPTURE(s.name());
    REQUIRE(s.active_layers() == 1);
    REQUIRE(test::same_bits(layer_values(s, 0), layer_values(all, 0)));
    for (int p = 1; p < 3; ++p) {
      auto const fresh = test::values_of(s);
      train(t, s, batch, 2);
      auto const trained = test::values_of(s);
      REQUIRE_FALSE(test::same_bits(trained, fresh));
      std::vector<test::snapshot> old;
      for (int l = 0; l < s.active_layers(); ++l) old.push_back(layer_values(s, l));
      auto const ends = end_values(s);

      s.begin_phase(p);
      REQUIRE(s.phase() == p);
      REQUIRE(s.active_layers() == p + 1);
      for (int l = 0; l < p; ++l) CHECK(test::same_bits(layer_values(s, l), old[std::size_t(l)]));
      CHECK(test::same_bits(end_values(s), ends));
      CHECK(test::same_bits(layer_values(s, p), layer_values(all, p)));
      for (auto const& g : test::gradients_of(s.stack().layers()[std::size_t(p)]))
        CHECK(test::norm_of(g.numbers) == 0);

      // [U67] Nothing of a fresh block is dead.
      test::step_by_hand d(t, s, batch);
      test::zero_gradients(s);
      d.step();
      for (auto const& g : test::gradients_of(s.stack().layers()[std::size_t(p)])) {
        CAPTURE(g.name);
        CHECK(test::norm_of(g.numbers) > 0);
      }
    }
  };
  grown(curriculum{});
  grown(freeze{});
  grown(strict{});
}

TEMPLATE_LIST_TEST_CASE("what is frozen keeps its bits and has no memory for training", "[model][growth]",
                        grown_placements) {
  auto t = test::tiny_teacher<backend_type>();
  auto const batch = test::random_batch({3, 1, 5});
  auto check = [&]<class Schedule>(Schedule, bool ends) {
    student_of<TestType, Schedule> s(t, seed{42});
    CAPTURE(s.name());
    CHECK(trains(s.stack().layers()[0]));
    CHECK(ends_train(s));
    for (int p = 1; p < 3; ++p) {
      s.begin_phase(p);
      for (int l = 0; l <= p; ++l) CHECK(trains(s.stack().layers()[std::size_t(l)]) == (l == p));
      CHECK(ends_train(s) == ends);
      std::vector<test::snapshot> before;
      for (int l = 0; l <= p; ++l) before.push_back(layer_values(s, l));
      auto const ends_before = end_values(s);
      train(t, s, batch, 3);
      for (int l = 0; l <= p; ++l)
        CHECK(test::same_bits(layer_values(s, l), before[std::size_t(l)]) == (l < p));
      CHECK(test::same_bits(end_values(s), ends_before) != ends);
    }
  };
  check(freeze{}, true);
  check(strict{}, false);

  student_of<TestType, curriculum> s(t, seed{42});
  s.begin_phase(1);
  CHECK(trains(s));
}

TEMPLATE_LIST_TEST_CASE("gradients pass through frozen blocks to what trains", "[model][growth][gradient]",
                        grown_placements) {
  check_gradients<TestType, freeze>(1);
  check_gradients<TestType, strict>(1);
  check_gradients<TestType, freeze>(2);
}

TEST_CASE("frozen blocks below everything that trains keep no activations", "[model][growth]") {
  auto t = test::tiny_teacher<backend_type>();
  auto bytes = [&]<class Placement, class Schedule>(Placement, Schedule) {
    student_of<Placement, Schedule> s(t, seed{42});
    s.begin_phase(1);
    s.begin_phase(2);
    return s.make_workspace(64).bytes();
  };
  using placement::post;
  using placement::pre;
  CHECK(bytes(pre{}, freeze{}) < bytes(pre{}, curriculum{}));
  CHECK(bytes(pre{}, strict{}) == bytes(pre{}, freeze{}));
  // Post-norm's entry norm trains below the frozen blocks: the gradient has to get there.
  CHECK(bytes(post{}, freeze{}) == bytes(post{}, curriculum{}));
  CHECK(bytes(post{}, strict{}) < bytes(post{}, freeze{}));
}

TEST_CASE("a workspace grows by the same number of bytes with every layer that trains", "[model][growth]") {
  auto t = test::tiny_teacher<backend_type>();
  student_of<placement::pre, growth::curriculum<4, 1>> s(t, seed{42});
  std::vector<std::size_t> bytes;
  for (int p = 0; p < 4; ++p) {
    s.begin_phase(p);
    bytes.push_back(s.make_workspace(64).bytes());
  }
  std::size_t const layer = bytes[1] - bytes[0];
  CHECK(layer == bytes[2] - bytes[1]);
  CHECK(layer == bytes[3] - bytes[2]);
  // Its input and the sum between the sublayers; q|k|v, attention's output and gate|up, whose rows lie apart;
  // three statistics a token and head or norm, each buffer whole cache lines.
  auto const apart = [](index_t columns) { return std::size_t(row_distance<double>(columns)); };
  std::size_t const wide = 12 + 12 + apart(20) + apart(12) + apart(20), statistics = 3 + 1 + 1;
  CHECK(layer == 64 * (wide + statistics) * sizeof(double));
}

TEST_CASE("a block whose branches give nothing is the identity under pre-norm only", "[model][growth][U66]") {
  auto t = test::tiny_teacher<backend_type>();
  auto const batch = test::random_batch({3, 1, 5});
  auto hidden_before_and_after = [&]<class Placement>(Placement) {
    student_of<Placement, curriculum> s(t, seed{42});
    test::enlarge_weights(s);
    auto hidden = [&] { return test::step_by_hand(t, s, batch).hidden(); };
    auto const before = hidden();
    s.begin_phase(1);
    auto const jumped = hidden();
    CHECK_FALSE(test::same_bits(jumped, before));  // a fresh block changes the function
    auto& block = s.stack().layers()[1];
    for (auto* p : {&block.output, &block.down}) std::fill_n(p->value.data(), p->value.size(), 0.0);
    auto const old = layer_values(s, 0);
    auto const after = hidden();
    std::fill_n(block.qkv.value.data(), block.qkv.value.size(), 7.0);  // new layers own their memory
    CHECK(test::same_bits(layer_values(s, 0), old));
    return test::same_bits(before, after);
  };
  CHECK(hidden_before_and_after(placement::pre{}));
  CHECK_FALSE(hidden_before_and_after(placement::post{}));
}

TEST_CASE("a phase that keeps the depth keeps what trains", "[model][growth]") {
  auto t = test::tiny_teacher<backend_type>();
  student_of<placement::pre, growth::joint<2, 1>::restarted<3>> s(t, seed{42});
  auto const fresh = test::values_of(s);
  for (int p = 0; p < 3; ++p) {
    s.begin_phase(p);
    CHECK(s.active_layers() == 2);
    CHECK(trains(s));
    CHECK(test::same_bits(test::values_of(s), fresh));
  }
  CHECK_THROWS_AS(s.begin_phase(3), config_error);
  CHECK_THROWS_AS(s.begin_phase(-1), config_error);
}
