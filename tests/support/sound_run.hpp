#pragma once
#include <cstddef>

#include "accrete/wiring/text.hpp"
#include "support/catch.hpp"
#include "support/program_trial.hpp"

namespace test {

/// What holds of every program, whatever its equation: the executor gives the interpreter's values to the last
/// bit, in training and in inference, and its gradients, also from values that were made again and in one
/// buffer; it touches nothing it should not.
template <class P>
void require_sound_run(char const* name) {
  INFO(name << ": " << wiring::text<P>());
  trial<P> t;
  auto const [expected, expected_gradients] = t.interpret();

  auto const inference = t.template forward<wiring::purpose::inference>();
  int const fused_in_inference = t.kernels.fused;
  auto const training = t.template forward<wiring::purpose::training>();
  auto const gradients = t.backward();
  auto const gradients_of_restored = t.backward_of_restored();

  REQUIRE(training.size() == expected.size());
  for (std::size_t out = 0; out < expected.size(); ++out) {
    CHECK(same_bits(training[out], expected[out]));
    CHECK(same_bits(inference[out], expected[out]));
  }
  CHECK(relative_difference(gradients, expected_gradients) < 1e-13);
  CHECK(same_bits(gradients_of_restored, gradients));
  if constexpr (wiring::backward_plan_of<P>.in_place) CHECK(same_bits(t.backward_in_place(), gradients));
  CHECK(fused_in_inference == P::num_fused);
  CHECK(t.kernels.fused == 2 * P::num_fused);
  CHECK(t.kernels.broken_promises == 0);
}

}  // namespace test
