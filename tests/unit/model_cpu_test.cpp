#include <algorithm>
#include <cmath>
#include <cstddef>
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

/// ||a - b|| / ||b|| over all groups together.
double whole_difference(test::snapshot const& a, test::snapshot const& b) {
  double off = 0, size = 0;
  for (std::size_t i = 0; i < b.size(); ++i)
    for (std::size_t k = 0; k < b[i].numbers.size(); ++k) {
      off += std::pow(a.at(i).numbers.at(k) - b[i].numbers[k], 2);
      size += std::pow(b[i].numbers[k], 2);
    }
  return std::sqrt(off / size);
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

TEMPLATE_LIST_TEST_CASE("a step in bfloat16 is near the one in f64", "[model][cpu][bfloat16]", test::placements) {
  // Weights and batch as in f64, but for the rounding of matrices and of what meets them: eight bits of each.
  test::tiny_shape const shape{.heads = 4, .kv_heads = 2, .qk_norm = true, .qkv_bias = true, .output_bias = true};
  auto const plain = one_step<TestType>(shape, reference::backend<double>());
  for (int threads : {1, 2}) {
    auto const rounded = one_step<TestType>(shape, cpu::backend<bfloat16>(threads));
    CAPTURE(placement::name_of<TestType>(), threads);
    CHECK(worst(rounded, plain) < 0.3);  // of a group that hardly gets a gradient
    CHECK(whole_difference(rounded.gradients, plain.gradients) < 0.05);
    CHECK(test::relative(rounded.sums.kd, plain.sums.kd) < 0.01);
    CHECK(test::relative(rounded.sums.ce, plain.sums.ce) < 0.01);
    auto const again = one_step<TestType>(shape, cpu::backend<bfloat16>(threads));
    CHECK(test::same_bits(rounded.gradients, again.gradients));
  }
}
