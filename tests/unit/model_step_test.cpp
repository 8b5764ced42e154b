#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <new>
#include <vector>

#include "accrete/cpu/backend.hpp"
#include "accrete/data/padded.hpp"
#include "accrete/model/student.hpp"
#include "support/catch.hpp"
#include "support/counted_new.hpp"
#include "support/matrix.hpp"
#include "support/step_by_hand.hpp"

// The memory of tensors comes aligned, through a door of its own.
[[gnu::noinline]] void* operator new(std::size_t size, std::align_val_t alignment) {
  test::bytes_requested += size;
  auto const whole = (size / std::size_t(alignment) + 1) * std::size_t(alignment);
  if (void* const at = std::aligned_alloc(std::size_t(alignment), whole)) return at;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* at, std::align_val_t) noexcept {
  std::free(at);
}
[[gnu::noinline]] void operator delete(void* at, std::size_t, std::align_val_t) noexcept {
  std::free(at);
}

using namespace accrete;

namespace {

using backend_type = cpu::backend<double>;

template <class Placement>
struct fixture {
  using student_type = student<Placement, test::joint_for<Placement>, backend_type>;
  teacher<backend_type> of;
  student_type pupil;

  explicit fixture(bool everything)
      : of(test::tiny_teacher<backend_type>(
            {.qk_norm = everything, .qkv_bias = everything, .output_bias = everything}, backend_type(2))),
        pupil(of, seed{42}) {
    test::enlarge_weights(pupil);
  }
};

struct outcome {
  distillation::loss_sums sums;
  test::snapshot gradients;
};
template <class Student>
outcome one_step(Student& s, test::step_by_hand<Student>& d) {
  test::zero_gradients(s);
  auto const sums = d.step();
  return {sums, test::gradients_of(s)};
}
template <class Fixture>
outcome one_step(Fixture& f, data::ragged_batch const& batch, distillation::slice_lengths slices = {4, 3}) {
  test::step_by_hand d(f.of, f.pupil, batch, slices);
  return one_step(f.pupil, d);
}

bool agree(outcome const& a, outcome const& b) {
  return test::relative(a.sums.kd, b.sums.kd) < 1e-12 && test::relative(a.sums.ce, b.sums.ce) < 1e-12 &&
         test::worst_difference(a.gradients, b.gradients) < 1e-12;
}
bool same_bits(outcome const& a, outcome const& b) {
  return a.sums.kd == b.sums.kd && a.sums.ce == b.sums.ce && test::same_bits(a.gradients, b.gradients);
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("a step's losses and gradients do not depend on how it is cut", "[model][step]",
                        test::placements) {
  for (bool const qk_norm : {false, true}) {
    fixture<TestType> f(qk_norm);
    auto const all = test::random_documents({3, 1, 5, 2, 7});
    auto const batch = test::batch_of(all);
    auto const whole = one_step(f, batch);
    CAPTURE(placement::name_of<TestType>(), qk_norm);
    CHECK(test::norm_of(whole.gradients.front().numbers) > 1e-3);

    // Slices of the head.
    index_t const tokens = batch.num_tokens();
    for (index_t n : {index_t(1), index_t(7), tokens, tokens + 100}) {
      CHECK(agree(one_step(f, batch, {n, n}), whole));
      CHECK(agree(one_step(f, batch, {tokens, n}), whole));
    }

    // The order of the documents.
    CHECK(agree(one_step(f, test::batch_of({all[4], all[2], all[0], all[3], all[1]})), whole));

    // Micro-batches: gradients add up under the denominator of the whole.
    test::zero_gradients(f.pupil);
    distillation::loss_sums sums;
    for (auto const& part : {test::batch_of({all[0], all[1]}), test::batch_of({all[2], all[3], all[4]})}) {
      test::step_by_hand d(f.of, f.pupil, part);
      d.weights.per_target = 1.0 / double(batch.num_targets);
      sums += d.step();
    }
    CHECK(agree({sums, test::gradients_of(f.pupil)}, whole));
  }
}

TEMPLATE_LIST_TEST_CASE("a step repeats bit by bit and reads nothing before it is written", "[model][step]",
                        test::placements) {
  for (bool const qk_norm : {false, true}) {
    fixture<TestType> f(qk_norm);
    CAPTURE(placement::name_of<TestType>(), qk_norm);
    auto const batch = test::random_batch({3, 1, 5});
    auto const large = test::random_batch({7, 6, 5, 4});
    auto const once = one_step(f, batch);
    CHECK(same_bits(one_step(f, batch), once));

    // The arena is as large as what is taken from it, and memory's content is of no matter.
    test::step_by_hand d(f.of, f.pupil, 40);
    CHECK(d.workspace.memory.used() == d.workspace.memory.capacity());
    CHECK(d.workspace.passing.used() == d.workspace.passing.capacity());
    CHECK(d.workspace.bytes() == d.workspace.memory.used() + d.workspace.passing.used());
    CHECK(d.workspace.memory.used() > 0);
    CHECK(d.workspace.passing.used() > 0);
    test::poison(d.workspace);
    d.see(batch);
    CHECK(same_bits(one_step(f.pupil, d), once));

    // A large batch leaves nothing behind.
    d.see(large);
    CHECK(std::isfinite(one_step(f.pupil, d).sums.kd));
    d.see(batch);
    CHECK(same_bits(one_step(f.pupil, d), once));

    // Inference keeps nothing and gives the same.
    auto const hidden = d.hidden();
    auto bare = f.pupil.stack().make_workspace(40, false);
    CHECK(bare.memory.used() == bare.memory.capacity());
    CHECK(bare.bytes() < d.workspace.bytes());
    test::poison(bare);
    auto const again = test::named("", f.pupil.forward(model::views_of(batch), bare));
    CHECK(test::same_bits(again.numbers, hidden));

    // What lasts no longer than a pass lies in memory that is lent, if that is large enough; the rest does not.
    auto const own = d.workspace.passing.used();
    tensor<std::byte, 1> room({index_t(own)});
    for (bool const enough : {true, false}) {
      d.workspace = f.pupil.make_workspace(40, recomputation::none,
                                           room.view().slice(0, index_t(own) - (enough ? 0 : 64)));
      CHECK(d.workspace.passing.used() == own);
      CHECK(d.workspace.passing.capacity() == (enough ? 0 : own));
      CHECK((d.workspace.passing.room().data == room.data()) == enough);
      test::poison(d.workspace);
      CHECK(same_bits(one_step(f.pupil, d), once));
    }

    // [U38] Gradients of a second backward are added.
    d.step();
    CHECK(test::worst_difference(test::gradients_of(f.pupil), once.gradients, 2.0) < 1e-14);
  }
}

TEMPLATE_LIST_TEST_CASE("a step allocates nothing after the first", "[model][step]", test::placements) {
  fixture<TestType> f(true);
  auto const batch = test::random_batch({3, 1, 5, 2});
  auto const smaller = test::random_batch({2, 4});
  auto const at_start = test::bytes_requested.load();
  test::step_by_hand d(f.of, f.pupil, batch);
  CHECK(test::bytes_requested.load() - at_start > d.workspace.memory.used());  // the counter counts
  d.step();
  auto const before = test::bytes_requested.load();
  d.step();
  d.see(smaller);
  d.step();
  d.losses();
  auto const after = test::bytes_requested.load();
  CHECK(after - before == 0);
}

TEMPLATE_LIST_TEST_CASE("a document does not see its neighbours", "[model][step][U31]", test::placements) {
  fixture<TestType> f(true);
  CAPTURE(placement::name_of<TestType>());
  auto const all = test::random_documents({3, 4, 6});
  auto losses_of = [&](data::ragged_batch const& batch) {
    test::step_by_hand d(f.of, f.pupil, batch);
    auto const sums = d.losses();
    return std::pair(std::vector<double>{sums.kd, sums.ce}, d.hidden());
  };
  auto const width = std::size_t(f.pupil.config().hidden_size);
  auto const [packed, hidden] = losses_of(test::batch_of({all[0], all[1]}));
  auto const [changed, hidden_changed] = losses_of(test::batch_of({test::random_document(3, 9), all[1]}));
  auto const [first, hidden_first] = losses_of(test::batch_of({all[0]}));
  auto const [second, hidden_second] = losses_of(test::batch_of({all[1]}));
  CHECK(test::relative(first[0] + second[0], packed[0]) < 1e-12);
  CHECK(test::relative(first[1] + second[1], packed[1]) < 1e-12);
  auto tail = [&](std::vector<double> const& v) {
    return std::vector<double>(v.end() - 4 * long(width), v.end());
  };
  CHECK(test::same_bits(tail(hidden), tail(hidden_changed)));
  CHECK_FALSE(test::same_bits(hidden, hidden_changed));
  CHECK(test::worst_difference({{"", tail(hidden)}}, {{"", hidden_second}}) < 1e-12);
}

TEST_CASE("padding columns change nothing", "[model][step]") {
  auto const all = test::random_documents({3, 1, 5, 2});
  auto const batch = test::batch_of(all);
  fixture<placement::post> f(false);
  auto const whole = one_step(f, batch);
  for (index_t columns : {5, 6, 9}) {
    data::ragged_batch imported;
    tensor<std::int32_t, 2> ids({4, columns}), mask({4, columns});
    for (index_t d = 0; d < 4; ++d)
      for (index_t i = 0; i < columns; ++i) {
        bool const inside = i < index_t(all[std::size_t(d)].size());
        ids.view()(d, i) = inside ? all[std::size_t(d)][std::size_t(i)] : 7;  // a pad id that is a word as well
        mask.view()(d, i) = inside;
      }
    data::append_padded(imported, ids.view(), data::lengths_from_mask(mask.view()));
    CHECK(imported.tokens == batch.tokens);
    CHECK(imported.num_targets == batch.num_targets);
    CHECK(same_bits(one_step(f, imported), whole));
  }
}

TEST_CASE("documents of one token have no target and are no obstacle", "[model][step]") {
  fixture<placement::pre> f(false);
  auto const r = one_step(f, test::random_batch({1, 1}));
  CHECK(r.sums.kd == 0);
  CHECK(r.sums.ce == 0);
  for (auto const& g : r.gradients) CHECK(test::norm_of(g.numbers) == 0);
}

TEST_CASE("a stack refuses what its buffers and tables cannot hold", "[model][step]") {
  fixture<placement::pre> f(false);
  test::step_by_hand d(f.of, f.pupil, 8);
  using Catch::Matchers::ContainsSubstring;
  auto const large = test::random_batch({5, 4});
  CHECK_THROWS_WITH(d.see(large), ContainsSubstring("a batch of 9 tokens, expected at most 8"));
  test::step_by_hand long_one(f.of, f.pupil, 40);
  auto const past_table = test::random_batch({33});
  CHECK_THROWS_AS(long_one.see(past_table), shape_error);
  data::ragged_batch wrong;
  wrong.append(std::vector<std::int32_t>{1, std::int32_t(test::tiny_vocabulary)});
  CHECK_THROWS_AS(long_one.see(wrong), shape_error);
}
