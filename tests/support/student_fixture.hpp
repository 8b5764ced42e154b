#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "accrete/backend/backend.hpp"
#include "accrete/data/corpus.hpp"
#include "accrete/distill/teacher_states.hpp"
#include "accrete/growth/curriculum.hpp"
#include "accrete/growth/joint.hpp"
#include "accrete/io/weights.hpp"
#include "accrete/model/student.hpp"
#include "accrete/placement/deepnorm.hpp"
#include "accrete/placement/olmo2.hpp"
#include "accrete/placement/peri.hpp"
#include "accrete/placement/post.hpp"
#include "accrete/placement/pre.hpp"
#include "accrete/train/trainer.hpp"
#include "support/catch.hpp"
#include "support/fixture.hpp"
#include "support/step_by_hand.hpp"

/// A student of the library beside one in plain PyTorch: what train_fixture_*_test.cpp, one for each backend,
/// check.
namespace test {

using fixture_placements =
    std::tuple<accrete::placement::pre, accrete::placement::post, accrete::placement::peri,
               accrete::placement::olmo2, accrete::placement::deepnorm>;

template <accrete::backend B>
accrete::teacher<B> fixture_teacher(std::string const& name) {
  auto const source = accrete::io::open_weights(fixture_folder() / name);
  return accrete::teacher<B>(B(), *source, std::nullopt, source->config.max_position_embeddings);
}

/// The residual stream as `forward` shows it: by the number of sublayers behind it.
template <class Stack, accrete::backend B>
std::vector<std::pair<int, std::vector<double>>> states_of(Stack& stack, B const& ctx,
                                                           accrete::model::matrix_in<B> embedding,
                                                           accrete::data::ragged_batch const& batch,
                                                           typename Stack::workspace& w) {
  std::vector<std::pair<int, std::vector<double>>> seen;
  stack.forward(ctx, embedding, accrete::model::views_of(batch), w,
                [&](int sublayers, int, auto rows) { seen.emplace_back(sublayers, named("", rows).numbers); });
  return seen;
}

/// hidden [T, D] and a head [V, D] -> [T, V]
template <accrete::backend B>
std::vector<double> logits_of(B const& ctx, accrete::model::matrix_in<B> hidden,
                              accrete::model::matrix_in<B> head) {
  accrete::tensor<typename B::scalar, 2> logits({hidden.rows(), head.rows()});
  linear(ctx, hidden, head, logits.view(), accrete::store::replace);
  return named("", logits.view()).numbers;
}

/// Checks streams and what the head makes of them, of a teacher or a student.
template <accrete::backend B, class Stack>
void check_forward(Stack& stack, B const& ctx, accrete::model::matrix_in<B> embedding,
                   accrete::model::matrix_in<B> head, fixture const& f, typename Stack::workspace& w) {
  constexpr double tolerance = fixture_tolerance<typename B::scalar>;
  auto const batch = f.batch();
  auto const seen = states_of(stack, ctx, embedding, batch, w);
  REQUIRE(seen.size() == f.names("states.").size());
  REQUIRE(seen.size() == std::size_t(2 * stack.num_layers() + 1));
  for (std::size_t i = 0; i < seen.size(); ++i) {
    INFO("after " << i << " sublayers");
    CHECK(seen[i].first == int(i));
    CHECK(distance(seen[i].second, f.numbers("states." + std::to_string(i))) < tolerance);
  }
  auto const hidden = stack.forward(ctx, embedding, accrete::model::views_of(batch), w);
  CHECK(distance(hidden, f.numbers("hidden")) < tolerance);
  CHECK(distance(logits_of<B>(ctx, hidden, head), f.numbers("logits")) < tolerance);
}

/// Writes the fixture's weights over the student's own: of layers from `first` on, and all others where it is
/// 0.
template <class Student>
void write_weights(Student& s, fixture const& f, int first = 0) {
  s.parameters([&](auto& p) {
    for (auto const& part : p.parts) {
      bool const of_layer = part.name.starts_with("model.layers.");
      if (of_layer ? std::stoi(part.name.substr(13)) < first : first > 0) continue;
      auto const flat = p.value.view().slice(part.first, part.rows).flat();
      auto const numbers = f.numbers("weights." + part.name);
      REQUIRE(accrete::index_t(numbers.size()) == flat.size());
      for (accrete::index_t i = 0; i < flat.size(); ++i)
        flat(i) = static_cast<typename decltype(flat)::value_type>(numbers[std::size_t(i)]);
    }
  });
}

/// Every tensor of the fixture under `prefix` beside the one of that name in `got`.
inline void check_tensors(snapshot const& got, fixture const& f, std::string const& prefix, double tolerance) {
  CHECK(got.size() == f.names(prefix).size());
  for (auto const& [name, numbers] : got) {
    INFO(prefix << name);
    CHECK(distance(numbers, f.numbers(prefix + name)) < tolerance);
  }
}

/// Forward, losses at tau 1 and 2, and every gradient of their mixture at tau 2.
template <class Placement, accrete::backend B>
void check_step() {
  constexpr double tolerance = fixture_tolerance<typename B::scalar>;
  fixture const f(std::string("student_") + Placement::name);
  auto teacher = fixture_teacher<B>(f.text("teacher"));
  accrete::student<Placement, accrete::growth::joint<2, 1>, B> student(teacher, {1});
  for (auto const& [name, numbers] : values_of(student)) {  // what a student takes over
    if (name.starts_with("model.layers.")) continue;
    INFO(name);
    CHECK(numbers == f.numbers("weights." + name));
  }
  write_weights(student, f);
  auto const batch = f.batch();
  step_by_hand step(teacher, student, batch);
  check_forward<B>(student.stack(), student.context(), student.embedding(), student.head().value.view(), f,
                   step.workspace);
  step.weights.alpha = f.fact("alpha");
  step.weights.gamma = f.fact("gamma");
  for (int const tau : {1, 2}) {
    INFO("tau " << tau);
    step.weights.temperature = tau;
    zero_gradients(student);
    auto const sums = step.step();
    CHECK(sums.targets == batch.num_targets);
    CHECK(relative(sums.mean_kd(), f.number("kd.tau" + std::to_string(tau))) < tolerance);
    CHECK(relative(sums.mean_ce(), f.number("ce")) < tolerance);
  }
  check_tensors(gradients_of(student), f, "gradients.", tolerance);
}

/// Documents of any length, one token included, which `corpus::append` would leave out.
inline accrete::data::corpus corpus_of(std::vector<std::vector<std::int32_t>> const& documents) {
  accrete::data::corpus c;
  for (auto const& d : documents) {
    c.tokens.insert(c.tokens.end(), d.begin(), d.end());
    c.offsets.push_back(accrete::index_t(c.tokens.size()));
    c.origins.push_back(c.num_origins++);
  }
  return c;
}

/// The trainer's whole run: 12 updates that grow from one layer to two, with warmup, cosine, a clip that bites
/// at times and decay of the matrices. `micro_tokens`: most tokens of a pass; gradients add up.
template <class Placement, accrete::backend B>
void check_run(accrete::index_t micro_tokens) {
  constexpr double tolerance = fixture_tolerance<typename B::scalar>;
  fixture const f(std::string("student_") + Placement::name);
  accrete::recipe r;
  r.steps = accrete::index_t(f.fact("steps"));
  r.batch_tokens = accrete::index_t(f.fact("batch_tokens"));
  r.micro_tokens = micro_tokens;
  r.peak_learning_rate = f.fact("peak");
  r.min_learning_rate = f.fact("minimum");
  r.warmup = f.fact("warmup") / f.fact("steps");
  r.beta1 = f.fact("beta1");
  r.beta2 = f.fact("beta2");
  r.epsilon = f.fact("epsilon");
  r.weight_decay = f.fact("weight_decay");
  r.max_gradient_norm = f.fact("clip");
  r.temperature = f.fact("temperature");
  r.alpha = f.fact("alpha");
  r.gamma = f.fact("gamma");
  r.logits_bytes = 5000;  // a few tokens at a time

  auto teacher = fixture_teacher<B>(f.text("teacher"));
  accrete::student<Placement, accrete::growth::curriculum<2, 1>, B> student(teacher, {1});
  auto const text = corpus_of(f.documents("text")), validation = corpus_of(f.documents("validation"));
  accrete::distillation::teacher_states<B> asked(teacher, r.batch_tokens);
  accrete::train::run_data<B> data{&text, {}, &asked, &validation, &asked};
  for (accrete::index_t d = 0; d < text.num_documents(); ++d) data.shard.push_back(d);

  int written = 0;  // layers
  accrete::train::run_events events;
  events.on_note = [&](std::string const& note) {
    if (!note.starts_with("phase ")) return;  // it begins, with blocks drawn by the library
    write_weights(student, f, written);
    written = student.active_layers();
  };
  auto const result = accrete::train::trainer<B>(student, teacher, data, r, events).run();
  CHECK(written == 2);

  auto const check = [&](char const* name, auto const& records, auto member, double most) {
    auto const expected = f.numbers(std::string("run.") + name);
    REQUIRE(records.size() == expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      INFO(name << " of record " << i);
      CHECK(relative(double(records[i].*member), expected[i]) <= most);
    }
  };
  using step = accrete::train::step_record;
  using evaluation = accrete::train::evaluation_record;
  check("tokens", result.steps, &step::tokens, 0);
  check("targets", result.steps, &step::targets, 0);
  check("learning_rate", result.steps, &step::learning_rate, 1e-14);
  check("loss", result.steps, &step::loss, tolerance);
  check("kd", result.steps, &step::kd, tolerance);
  check("ce", result.steps, &step::ce, tolerance);
  check("gradient_norm", result.steps, &step::gradient_norm, tolerance);
  check("clip_scale", result.steps, &step::clip_scale, tolerance);
  check("validation_kd", result.evaluations, &evaluation::kd, tolerance);
  check("validation_ce", result.evaluations, &evaluation::ce, tolerance);
  check_tensors(values_of(student), f, "run.weights.", tolerance);
}

}  // namespace test
