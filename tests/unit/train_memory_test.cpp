#include <algorithm>
#include <cstddef>
#include <string>

#include "accrete/growth/curriculum.hpp"
#include "accrete/growth/freeze.hpp"
#include "accrete/train/distill.hpp"
#include "accrete/train/trainer.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/sized_model.hpp"
#include "support/tiny_run.hpp"
#include "support/watched_new.hpp"

using namespace accrete;
using test::requests_of;
using test::tiny_recipe;
using test::tiny_run;

namespace {

/// Requests of the updates after the first one of each phase, of which there are enough to begin the text anew.
template <class P, class S>
std::size_t requests_in_updates(recipe const& r, train::text_options const& options = test::tiny_options()) {
  tiny_run<P, S> run(r, {}, options, {.qk_norm = true, .qkv_bias = true});
  std::size_t sum = 0;
  index_t step = 0;
  for (int p = 0; p < S::plan.num_phases(); ++p) {
    REQUIRE(requests_of([&] { run.trainer.begin_phase(p); }) > 0);  // the count counts
    (void)run.trainer.update(p, ++step, 1, 0.01);
    for (index_t i = 2; i <= r.steps + 3; ++i)
      sum += requests_of([&] { (void)run.trainer.update(p, ++step, i, 0.01); });
  }
  REQUIRE(run.trainer.order_state().epoch >= 3);
  return sum;
}

}  // namespace

TEST_CASE("an update asks for no memory after the first of its phase", "[train][memory]") {
  auto r = tiny_recipe(5);
  using growth::curriculum;
  using growth::freeze;
  CHECK(requests_in_updates<placement::pre, curriculum<3, 1>>(r) == 0);
  CHECK(requests_in_updates<placement::post, freeze<3, 1>>(r) == 0);
  CHECK(requests_in_updates<placement::residual, curriculum<3, 1>>(r) == 0);
  CHECK(requests_in_updates<placement::hybrid, freeze<3, 1>::strict>(r) == 0);
  r.micro_tokens = 10;
  CHECK(requests_in_updates<placement::pre, curriculum<3, 1>>(r) == 0);
  test::temporary_folder folder;
  CHECK(requests_in_updates<placement::pre, curriculum<3, 1>>(r, test::tiny_options(folder / "cache")) == 0);
}

TEST_CASE("a run never asks for as much as its tokens times the vocabulary", "[train][memory]") {
  // A vocabulary so large that logits of one batch outweigh all else, the head with its 12 columns included.
  using backend_type = reference::backend<double>;
  index_t const tokens = 64, vocabulary = 6000;
  auto const whole = std::size_t(tokens * vocabulary) * sizeof(double);
  auto r = tiny_recipe(2);
  r.batch_tokens = tokens;
  auto const largest_of_run = [&](std::size_t logits_bytes) {
    r.logits_bytes = logits_bytes;
    test::largest_request = 0;
    auto t = test::sized_teacher<backend_type>({12, 2, 3, 1, 4, 10, vocabulary});
    student<placement::post, growth::curriculum<2, 1>, backend_type> s(t, r.seed);
    auto const text = test::sized_corpus(40, {31, 17, 9, 25}, vocabulary);
    auto const d = distill(s, t, text, r, {.validation_documents = 6});
    REQUIRE(d.steps.size() == 4);
    index_t most = 0;
    for (auto const& step : d.steps) most = std::max(most, step.tokens);
    REQUIRE(most > tokens / 2);  // batches are about full
    return std::size_t(test::largest_request);
  };
  CHECK(largest_of_run(whole / 8) < whole / 2);
  CHECK(largest_of_run(4 * whole) >= whole);  // without a budget it would
}
