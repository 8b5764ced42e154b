#include "accrete/train/recipe.hpp"

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/files.hpp"

using namespace accrete;

namespace {

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();
constexpr double infinite = std::numeric_limits<double>::infinity();

/// What check() says of the default recipe after `change`.
std::string refusal(std::function<void(recipe&)> const& change) {
  recipe r;
  change(r);
  return test::error_of([&] { r.check(); });
}

}  // namespace

TEST_CASE("a recipe refuses each number that cannot work, naming it in one line", "[train][recipe]") {
  struct bad {
    char const* name;
    double recipe::*field;
    std::vector<double> values;
  };
  for (auto const& [name, field, values] : std::vector<bad>{
           {"peak_learning_rate", &recipe::peak_learning_rate, {0, -1e-4, not_a_number, infinite, 1e3}},
           {"min_learning_rate", &recipe::min_learning_rate, {-1e-9, 2e-4, not_a_number, infinite}},
           {"warmup", &recipe::warmup, {1.01, not_a_number, infinite}},
           {"beta1", &recipe::beta1, {1, -0.1, not_a_number}},
           {"beta2", &recipe::beta2, {1, -0.1, not_a_number}},
           {"epsilon", &recipe::epsilon, {0, -1e-8, not_a_number, infinite}},
           {"weight_decay", &recipe::weight_decay, {-0.1, not_a_number, infinite}},
           {"max_gradient_norm",
            &recipe::max_gradient_norm,
            {0, -1, not_a_number}},  // U49: -1 would reverse the step
           {"temperature", &recipe::temperature, {0, -1, not_a_number, infinite}},
           {"alpha", &recipe::alpha, {-0.1, not_a_number, infinite}},
           {"gamma", &recipe::gamma, {-0.1, not_a_number, infinite}}}) {
    for (double const value : values) {
      auto const text = refusal([f = field, value](recipe& r) { r.*f = value; });
      CAPTURE(name, value, text);
      CHECK(test::one_line(text));
      CHECK(text.find("recipe." + std::string(name) + ": got ") == 0);
    }
  }
}

TEST_CASE("a recipe refuses each count that cannot work, naming it in one line", "[train][recipe]") {
  struct bad {
    char const* name;
    index_t recipe::*field;
    std::vector<index_t> values;
  };
  for (auto const& [name, field, values] :
       std::vector<bad>{{"steps", &recipe::steps, {0, -3}},
                        {"batch_tokens", &recipe::batch_tokens, {1, 0, -2048}},
                        {"micro_tokens", &recipe::micro_tokens, {-1}},
                        {"evaluate_every", &recipe::evaluate_every, {-1}}}) {
    for (index_t const value : values) {
      auto const text = refusal([f = field, value](recipe& r) { r.*f = value; });
      CAPTURE(name, value);
      CHECK(test::one_line(text));
      CHECK(text.find("recipe." + std::string(name) + ": got " + std::to_string(value) + ",") == 0);
    }
  }
}

TEST_CASE("a recipe's refusal shows small numbers as they are", "[train][recipe]") {
  auto const text = refusal([](recipe& r) { r.peak_learning_rate = -1e-8; });
  CHECK(text == "recipe.peak_learning_rate: got -1e-08, expected above 0 and below 1000 (the paper's is 1e-4)");
  CHECK(refusal([](recipe& r) { r.alpha = r.gamma = 0; }).find("recipe.alpha, gamma: got 0 and 0") == 0);
  CHECK_THROWS_AS([] { recipe{.steps = 0}.check(); }(), config_error);
  CHECK_THROWS_AS([] { (void)recipe{.steps = 0}.checked(); }(), config_error);
}

TEST_CASE("a recipe lets what works pass: the defaults, and the ends of each range", "[train][recipe]") {
  CHECK(refusal([](recipe&) {}).empty());
  CHECK(refusal([](recipe& r) {
          r.min_learning_rate = r.peak_learning_rate;
          r.beta1 = r.beta2 = 0;
          r.alpha = 0;
          r.warmup = 1;
          r.max_gradient_norm = infinite;  // no clipping
        }).empty());
  CHECK(refusal([](recipe& r) {
          r.min_learning_rate = 0;
          r.gamma = 0;
          r.warmup = 0;
          r.steps = 1;
          r.batch_tokens = 2;
        }).empty());
}

TEST_CASE("a recipe divides losses by the targets of the whole batch, and by nothing where there is none",
          "[train][recipe]") {
  recipe const r{.temperature = 2, .alpha = 0.6, .gamma = 0.1};
  auto const w = r.weights(8);
  CHECK((w.temperature == 2 && w.alpha == 0.6 && w.gamma == 0.1 && w.per_target == 0.125));
  CHECK(r.weights(0).per_target == 0);
}

TEST_CASE("a recipe's memory holds a micro-batch, never more than a batch", "[train][recipe]") {
  CHECK(recipe{.batch_tokens = 100}.micro_capacity() == 100);
  CHECK(recipe{.batch_tokens = 100, .micro_tokens = 30}.micro_capacity() == 30);
  CHECK(recipe{.batch_tokens = 100, .micro_tokens = 300}.micro_capacity() == 100);
}
