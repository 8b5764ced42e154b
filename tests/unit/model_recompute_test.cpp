#include <cstddef>
#include <tuple>
#include <vector>

#include "accrete/cpu/backend.hpp"
#include "accrete/growth/freeze.hpp"
#include "accrete/growth/joint.hpp"
#include "accrete/model/student.hpp"
#include "accrete/reference/backend.hpp"
#include "support/catch.hpp"
#include "support/step_by_hand.hpp"

using namespace accrete;

namespace {

constexpr recomputation savings[] = {recomputation::mlp, recomputation::layer, recomputation::block};

/// Gradients and losses of one batch, and the bytes it took.
template <class Student>
struct outcome {
  test::snapshot gradients;
  distillation::loss_sums sums;
  std::size_t bytes;

  template <class Teacher>
  outcome(Teacher& teacher, Student& of, recomputation r) {
    auto const batch = test::random_batch({3, 1, 5, 2, 7});
    test::step_by_hand d(teacher, of, batch, {7, 3});
    d.workspace = of.make_workspace(batch.num_tokens(), r);
    bytes = d.workspace.bytes();
    test::zero_gradients(of);
    sums = d.step();
    gradients = test::gradients_of(of);
  }
};

template <class Student, class Teacher>
void check_all(Teacher& teacher, Student& of) {
  outcome<Student> const plain(teacher, of, recomputation::none);
  REQUIRE(plain.gradients.size() > 0);
  for (auto const r : savings) {
    outcome<Student> const saved(teacher, of, r);
    CAPTURE(Student::configuration_name(), recomputation_names[std::size_t(r)]);
    CHECK(test::same_bits(saved.gradients, plain.gradients));
    CHECK(saved.sums.kd == plain.sums.kd);
    CHECK(saved.sums.ce == plain.sums.ce);
  }
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("what is made again gives the same gradients to the last bit", "[model][recompute]",
                        test::placements) {
  auto const check = [](auto ctx) {
    using B = decltype(ctx);
    auto teacher = test::tiny_teacher<B>({.heads = 4, .kv_heads = 2, .qk_norm = true}, ctx);
    student<TestType, growth::joint<2, 2>, B> of(teacher, seed{42});
    test::enlarge_weights(of);
    check_all(teacher, of);
  };
  check(reference::backend<double>());
  check(cpu::backend<float>(2));
  check(cpu::backend<bfloat16>(2));
}

TEST_CASE("layers are made again where only the newest block trains", "[model][recompute]") {
  using B = reference::backend<double>;
  auto teacher = test::tiny_teacher<B>();
  student<placement::pre, growth::freeze<3, 2>, B> of(teacher, seed{42});
  for (int p = 0; p < 3; ++p) {
    if (p > 0) of.begin_phase(p);
    test::enlarge_weights(of);
    check_all(teacher, of);
  }
}

TEST_CASE("each saving takes less memory than the one before it keeps", "[model][recompute][memory]") {
  using B = cpu::backend<float>;
  auto teacher = test::tiny_teacher<B>();
  student<placement::pre, growth::joint<3, 3>, B> of(teacher, seed{42});
  auto const bytes = [&](recomputation r) { return of.make_workspace(64, r).bytes(); };
  auto const& shape = of.stack().shape();
  // Of nine layers' gate|up and sums between the sublayers, [T, D], one of each is left.
  auto const saved = 8 * 64 * (2 * shape.intermediate + shape.hidden) * index_t(sizeof(float));
  CHECK(bytes(recomputation::none) - bytes(recomputation::mlp) >= std::size_t(saved));
  CHECK(bytes(recomputation::block) < bytes(recomputation::mlp));
  CHECK(bytes(recomputation::layer) < bytes(recomputation::block));
  CHECK(recomputation_of("layer") == recomputation::layer);
  CHECK_FALSE(recomputation_of("layers"));
}
