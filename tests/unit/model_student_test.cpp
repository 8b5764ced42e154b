#include "accrete/model/student.hpp"

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "accrete/core/error.hpp"
#include "accrete/growth/curriculum.hpp"
#include "accrete/growth/joint.hpp"
#include "accrete/reference/backend.hpp"
#include "support/catch.hpp"
#include "support/step_by_hand.hpp"

using namespace accrete;

namespace {

using backend_type = reference::backend<double>;
template <class P, class S = growth::joint<3, 1>>
using student_of = student<P, S, backend_type>;

std::map<std::string, std::vector<double>> by_name(test::snapshot const& all) {
  std::map<std::string, std::vector<double>> m;
  for (auto const& n : all) m[n.name] = n.numbers;
  return m;
}
std::vector<double> numbers_of(auto const& tensor) {
  return std::vector<double>(tensor.data(), tensor.data() + tensor.size());
}

}  // namespace

TEST_CASE("students of one seed draw the same matrices under every placement", "[model][student]") {
  auto t = test::tiny_teacher<backend_type>();
  student_of<placement::pre> pre(t, seed{42});
  student_of<placement::post> post(t, seed{42});
  student_of<placement::pre> another(t, seed{43});
  auto const of_post = by_name(test::values_of(post));
  auto const of_another = by_name(test::values_of(another));
  int matrices = 0;
  for (auto const& [name, numbers] : by_name(test::values_of(pre))) {
    if (name.find("_proj") == std::string::npos) continue;
    ++matrices;
    CAPTURE(name);
    CHECK(test::same_bits(numbers, of_post.at(name)));
    CHECK_FALSE(test::same_bits(numbers, of_another.at(name)));
  }
  CHECK(matrices == 3 * 7);
}

TEST_CASE("fresh weights are 0.02 times a stream of their own, and gains are 1", "[model][student]") {
  auto t = test::tiny_teacher<backend_type>({.qk_norm = true});
  student_of<placement::peri> s(t, seed{42});
  for (auto const& [name, numbers] : by_name(test::values_of(s))) {
    CAPTURE(name);
    auto const layer = name.rfind("model.layers.", 0) == 0 ? name[13] - '0' : -1;
    if (auto const end = name.find("_proj.weight"); end != std::string::npos) {
      auto const begin = name.rfind('.', end) + 1;
      random_stream const stream(seed{42}, "init/" + name.substr(begin, end + 5 - begin), std::uint64_t(layer));
      for (std::size_t i = 0; i < numbers.size(); ++i) REQUIRE(numbers[i] == 0.02 * stream.normal(i));
    } else if (layer >= 0) {
      for (double gain : numbers) REQUIRE(gain == 1.0);
    }
  }
  auto const named = by_name(test::values_of(s));
  CHECK(named.at("model.layers.0.self_attn.q_norm.weight").size() == 4);
  CHECK(named.at("model.layers.2.post_feedforward_layernorm.weight").size() == 12);
}

TEST_CASE("a placement's own rule draws its students", "[model][student]") {
  auto t = test::tiny_teacher<backend_type>();
  student_of<placement::pre> pre(t, seed{42});
  student_of<placement::deepnorm> deep(t, seed{42});
  auto const plain = by_name(test::values_of(pre));
  auto const scaled = by_name(test::values_of(deep));
  double const beta = std::pow(8.0 * 3, -0.25);
  auto check = [&](std::string const& name, double gain, double fans) {
    auto const& p = plain.at("model.layers.1." + name);
    auto const& d = scaled.at("model.layers.1." + name);
    double const std = gain * std::sqrt(2.0 / fans);
    for (std::size_t i = 0; i < p.size(); ++i) REQUIRE(std::abs(d[i] - p[i] / 0.02 * std) < 1e-14);
  };
  check("self_attn.q_proj.weight", 1.0, 12 + 12);
  check("self_attn.k_proj.weight", 1.0, 12 + 4);
  check("self_attn.v_proj.weight", beta, 12 + 4);
  check("self_attn.o_proj.weight", beta, 12 + 12);
  check("mlp.gate_proj.weight", beta, 12 + 10);
  check("mlp.down_proj.weight", beta, 10 + 12);
}

TEST_CASE("a student's constants and draws do not move while it grows", "[model][student]") {
  auto t = test::tiny_teacher<backend_type>();
  student_of<placement::deepnorm, growth::curriculum<3, 1>> grown(t, seed{42});
  student_of<placement::deepnorm> joint(t, seed{42});
  auto const all = by_name(test::values_of(joint));
  for (auto const& [name, numbers] : by_name(test::values_of(grown))) {
    CAPTURE(name);
    CHECK(test::same_bits(numbers, all.at(name)));
  }
  CHECK(grown.stack().final_depth() == 3);
  CHECK(grown.active_layers() == 1);
}

TEST_CASE("a student's parameters have Hugging Face's names, each once and in order", "[model][student]") {
  auto t = test::tiny_teacher<backend_type>();
  student_of<placement::pre, growth::joint<1, 1>> s(t, seed{42});
  std::vector<std::string> names;
  index_t elements = 0;
  visit_parameters(s, [&](std::string const& name, auto v, model::parameter_role) {
    names.push_back(name);
    elements += v.size();
  });
  std::string const here = "model.layers.0.";
  CHECK(names == std::vector<std::string>{here + "self_attn.q_proj.weight", here + "self_attn.k_proj.weight",
                                          here + "self_attn.v_proj.weight", here + "self_attn.o_proj.weight",
                                          here + "mlp.gate_proj.weight", here + "mlp.up_proj.weight",
                                          here + "mlp.down_proj.weight", here + "input_layernorm.weight",
                                          here + "post_attention_layernorm.weight", "model.norm.weight",
                                          "lm_head.weight"});
  CHECK(elements == 12 * (12 + 4 + 4 + 12 + 10 + 10 + 10 + 1 + 1 + 1 + 23));
  student_of<placement::post, growth::joint<1, 1>> post(t, seed{42});
  CHECK(test::values_of(post).front().name == "model.entry_norm.weight");
}

TEST_CASE("a student's ends begin as the teacher's final norm", "[model][student]") {
  auto t = test::tiny_teacher<backend_type>();
  auto const norm = numbers_of(t.final_norm().value);
  student_of<placement::peri_embedding> s(t, seed{42});
  REQUIRE(s.stack().entry_gains().size() == 1);
  REQUIRE(s.stack().readout_gains().size() == 1);
  CHECK(test::same_bits(numbers_of(s.stack().entry_gains()[0].value), norm));
  CHECK(test::same_bits(numbers_of(s.stack().readout_gains()[0].value), norm));
}

TEST_CASE("the student's head is a copy of its own, tied teacher or not", "[model][student][U44]") {
  for (bool const tied : {true, false}) {
    CAPTURE(tied);
    auto t = test::tiny_teacher<backend_type>({.tied = tied});
    CHECK((t.head() == t.embedding()) == tied);
    CHECK(test::same_bits(numbers_of(*t.head()), numbers_of(*t.embedding())) == tied);
    student_of<placement::pre> s(t, seed{42});
    auto const table = numbers_of(*t.embedding());
    auto const head = numbers_of(*t.head());
    CHECK(test::same_bits(numbers_of(s.head().value), head));
    CHECK(s.embedding().data == t.embedding()->data());  // shared, frozen, no parameter
    s.parameters([](auto& p) { CHECK(p.role != model::parameter_role::embedding); });

    auto const batch = test::random_batch({3, 1, 5});
    test::step_by_hand d(t, s, batch);
    d.step();
    test::descend(s, 0.1);
    CHECK_FALSE(test::same_bits(numbers_of(s.head().value), head));
    CHECK(test::same_bits(numbers_of(*t.embedding()), table));
    CHECK(test::same_bits(numbers_of(*t.head()), head));
  }
}

TEST_CASE("a student with its teacher's weights loses nothing to it", "[model][student][U08]") {
  for (bool const qk_norm : {false, true}) {
    auto t = test::tiny_teacher<backend_type>({.layers = 3, .qk_norm = qk_norm});
    student_of<placement::pre> s(t, seed{42});
    std::map<std::string, std::vector<double>> const weights = by_name(test::values_of(t.stack()));
    std::size_t copied = 0;
    visit_parameters(s, [&](std::string const& name, auto v, model::parameter_role) {
      auto const found = weights.find(name);
      if (found == weights.end()) return;
      ++copied;
      for (index_t i = 0; i < v.size(); ++i) v.flat()(i) = found->second[std::size_t(i)];
    });
    CHECK(copied == weights.size());
    auto const batch = test::random_batch({3, 1, 5, 2});
    for (double temperature : {0.9, 1.0, 2.0}) {
      test::step_by_hand d(t, s, batch, {5, 2});
      d.weights.temperature = temperature;
      d.weights.alpha = 1.0;
      d.weights.gamma = 0.0;
      test::zero_gradients(s);
      auto const sums = d.step();
      CAPTURE(qk_norm, temperature);
      CHECK(std::abs(sums.kd) < 1e-12);
      CHECK(sums.ce > 1.0);
      for (auto const& g : test::gradients_of(s)) CHECK(test::norm_of(g.numbers) < 1e-13);
    }
  }
}

TEST_CASE("a teacher is only asked", "[model][teacher][U18]") {
  auto t = test::tiny_teacher<backend_type>({.tied = false});
  auto const weights = test::values_of(t.stack());
  auto const table = numbers_of(*t.embedding());
  auto const head = numbers_of(*t.head());
  student_of<placement::post> s(t, seed{42});
  auto const batch = test::random_batch({3, 1, 5});
  auto w = t.make_workspace(9);
  auto const once = test::named("", t.forward(model::views_of(batch), w));
  test::step_by_hand d(t, s, batch);
  for (int i = 0; i < 10; ++i) {
    test::zero_gradients(s);
    d.step();
    test::descend(s, 0.1);
  }
  CHECK(test::same_bits(test::values_of(t.stack()), weights));
  CHECK(test::same_bits(numbers_of(*t.embedding()), table));
  CHECK(test::same_bits(numbers_of(*t.head()), head));
  CHECK(test::same_bits(test::named("", t.forward(model::views_of(batch), w)).numbers, once.numbers));
  t.stack().parameters([](auto& p) {
    CHECK(p.gradient.empty());
    CHECK(p.moment1.empty());
    CHECK(p.moment2.empty());
  });
}

TEST_CASE("a teacher without a tokenizer says so", "[model][teacher]") {
  auto t = test::tiny_teacher<backend_type>();
  CHECK_FALSE(t.has_tokenizer());
  CHECK_THROWS_AS(t.tokenizer(), config_error);
}
