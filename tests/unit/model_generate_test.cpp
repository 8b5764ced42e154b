#include "accrete/model/generate.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "accrete/core/error.hpp"
#include "accrete/reference/backend.hpp"
#include "support/catch.hpp"
#include "support/step_by_hand.hpp"
#include "support/tiny_model.hpp"

using namespace accrete;

namespace {

using backend_type = reference::backend<double>;
using ids = std::vector<std::int32_t>;

teacher<backend_type> ending_at(ids ends) {
  test::tiny_weights weights;
  weights.config.eos_token_ids = std::move(ends);
  return {{}, weights, std::nullopt, 32};
}

}  // namespace

TEST_CASE("generate goes on with the most likely token", "[model][generate]") {
  auto t = ending_at({});
  ids const prompt{3, 1, 4};
  ids seen;
  auto const text = model::generate(t, prompt, 6, {}, [&](std::int32_t id) { seen.push_back(id); });
  REQUIRE(text.size() == 9);
  CHECK(std::equal(prompt.begin(), prompt.end(), text.begin()));
  CHECK(std::equal(seen.begin(), seen.end(), text.begin() + 3));
  // Each token is the argmax of what one run over all before it says.
  auto const batch = test::batch_of({text});
  auto w = t.make_workspace(9);
  auto const hidden = t.forward(model::views_of(batch), w);
  for (index_t at = 2; at < 8; ++at) {
    std::vector<double> logits;
    for (index_t v = 0; v < test::tiny_vocabulary; ++v) {
      double sum = 0;
      for (index_t i = 0; i < hidden.columns(); ++i) sum += hidden(at, i) * t.head()->view()(v, i);
      logits.push_back(sum);
    }
    auto const best = std::max_element(logits.begin(), logits.end()) - logits.begin();
    CHECK(text[std::size_t(at) + 1] == std::int32_t(best));
  }
}

TEST_CASE("generate stops after any token that ends a text", "[model][generate]") {
  auto endless = ending_at({});
  auto const whole = model::generate(endless, {3, 1, 4}, 6, {});
  auto const end = whole[5];
  std::int32_t other = 0;
  while (std::find(whole.begin(), whole.end(), other) != whole.end()) ++other;
  auto const first = std::size_t(std::find(whole.begin() + 3, whole.end(), end) - whole.begin());
  auto t = ending_at({other, end});
  CHECK(model::generate(t, {3, 1, 4}, 6, {}) == ids(whole.begin(), whole.begin() + long(first) + 1));
}

TEST_CASE("generate refuses prompts that it cannot go on from", "[model][generate]") {
  auto t = ending_at({});
  CHECK_THROWS_AS(model::generate(t, {}, 3, {}), config_error);
  CHECK_THROWS_AS(model::generate(t, {1}, 32, {}), config_error);
  CHECK_THROWS_AS(model::generate(t, {std::int32_t(test::tiny_vocabulary)}, 3, {}), error);
}

TEST_CASE("choose_token draws with the probabilities it is asked for", "[model][generate]") {
  std::vector<double> logits;
  for (double const p : {0.1, 0.4, 0.2, 0.3}) logits.push_back(std::log(p));
  auto const shares = [&](model::sampling const& how) {
    constexpr int draws = 20000;
    std::vector<double> count(4);
    for (int i = 0; i < draws; ++i) count[std::size_t(model::choose_token(logits, how, std::uint64_t(i)))] += 1;
    for (double& c : count) c /= draws;
    return count;
  };
  auto const near = [](std::vector<double> const& got, std::vector<double> const& wanted) {
    bool all = true;
    for (std::size_t i = 0; i < got.size(); ++i)  // four deviations; nothing where nothing may be
      all = all && std::abs(got[i] - wanted[i]) <= 4 * std::sqrt(wanted[i] * (1 - wanted[i]) / 20000);
    return all;
  };
  CHECK(near(shares({.temperature = 1}), {0.1, 0.4, 0.2, 0.3}));
  CHECK(near(shares({.temperature = 0.5}), {0.01 / 0.3, 0.16 / 0.3, 0.04 / 0.3, 0.09 / 0.3}));
  CHECK(near(shares({.temperature = 1, .top_k = 2}), {0, 0.4 / 0.7, 0, 0.3 / 0.7}));
  CHECK(near(shares({.temperature = 1, .top_p = 0.75}), {0, 0.4 / 0.9, 0.2 / 0.9, 0.3 / 0.9}));
  CHECK(shares({.temperature = 1, .seed = seed{1}}) != shares({.temperature = 1, .seed = seed{2}}));
  CHECK(shares({}) == std::vector<double>{0, 1, 0, 0});
  CHECK(model::choose_token(std::vector<double>{1, 2, 2}, {}, 0) == 1);  // ties go to the lower id
}
