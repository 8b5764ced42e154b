#include <algorithm>
#include <tuple>

#include "accrete/cpu/backend.hpp"
#include "accrete/model/student.hpp"
#include "accrete/reference/backend.hpp"
#include "support/catch.hpp"
#include "support/step_by_hand.hpp"

using namespace accrete;

namespace {

using three_placements = std::tuple<placement::pre, placement::post, placement::hybrid>;

struct outcome {
  distillation::loss_sums sums;
  test::snapshot hidden, gradients;
};

template <class Placement, class B>
outcome one_step(test::tiny_shape const& shape, B ctx) {
  auto teacher = test::tiny_teacher<B>(shape, ctx);
  student<Placement, test::joint_for<Placement>, B> of(teacher, seed{42});
  test::enlarge_weights(of);
  auto const batch = test::random_batch({3, 1, 5, 2, 7});
  test::step_by_hand d(teacher, of, batch, {7, 3});
  outcome o;
  o.hidden.push_back({"hidden", d.hidden()});
  o.hidden.push_back(test::named("teacher", d.teacher_hidden()));
  o.sums = d.step();
  o.gradients = test::gradients_of(of);
  return o;
}

double worst(outcome const& a, outcome const& b) {
  return std::max({test::relative(a.sums.kd, b.sums.kd), test::relative(a.sums.ce, b.sums.ce),
                   test::worst_difference(a.hidden, b.hidden),
                   test::worst_difference(a.gradients, b.gradients)});
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("a step on the CPU backend is the reference's, losses and all gradients",
                        "[model][cpu]", test::placements) {
  for (bool const more : {false, true}) {
    test::tiny_shape const shape{.heads = 4,
                                 .kv_heads = 2,
                                 .qk_norm = more,
                                 .qkv_bias = more,
                                 .output_bias = more,
                                 .rotary = more ? test::tiny_llama3 : io::rotary_scaling{}};
    auto const plain = one_step<TestType>(shape, reference::backend<double>());
    for (int threads : {1, 2}) {
      CAPTURE(placement::name_of<TestType>(), more, threads);
      CHECK(worst(one_step<TestType>(shape, cpu::backend<double>(threads)), plain) < 1e-12);
    }
  }
}

TEMPLATE_LIST_TEST_CASE("a step in f32 is near the one in f64", "[model][cpu]", three_placements) {
  test::tiny_shape const shape{.qk_norm = true, .qkv_bias = true};
  auto const plain = one_step<TestType>(shape, reference::backend<double>());
  CAPTURE(placement::name_of<TestType>());
  CHECK(worst(one_step<TestType>(shape, cpu::backend<float>(2)), plain) < 1e-4);
}
