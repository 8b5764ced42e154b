#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "accrete/core/rng.hpp"
#include "accrete/data/corpus.hpp"
#include "accrete/growth/schedule.hpp"
#include "accrete/model/student.hpp"
#include "accrete/reference/backend.hpp"
#include "accrete/train/prepared_text.hpp"
#include "accrete/train/trainer.hpp"
#include "support/step_by_hand.hpp"
#include "support/tiny_model.hpp"

/// Whole training runs that take milliseconds.
namespace test {

/// A schedule of a user's own: one transition keeps, the other starts over.
struct own_schedule {
  static constexpr accrete::growth::plan<3> plan{3,
                                                 1,
                                                 {{{.length = 1.0, .active_blocks = 1},
                                                   {.length = 0.5,
                                                    .active_blocks = 2,
                                                    .optimizer = accrete::growth::optimizer_state::keep,
                                                    .rate = accrete::growth::learning_rate::proceed,
                                                    .data = accrete::growth::data_order::reset},
                                                   {.length = 1.5,
                                                    .active_blocks = 3,
                                                    .optimizer = accrete::growth::optimizer_state::reset,
                                                    .rate = accrete::growth::learning_rate::restart,
                                                    .data = accrete::growth::data_order::proceed}}}};
  static std::string name() { return "own"; }
};
static_assert(accrete::growth_schedule<own_schedule>);

/// Documents of 2 to 9 tokens; even ones go up by one, odd ones are drawn, so that there is something to learn.
inline accrete::data::corpus tiny_corpus(accrete::index_t documents = 220) {
  accrete::data::corpus text;
  accrete::random_stream const stream(accrete::seed{5}, "test/run");
  std::uint64_t at = 0;
  for (accrete::index_t d = 0; d < documents; ++d) {
    std::vector<std::int32_t> tokens(std::size_t(2 + (d * 7) % 8));
    auto const drawn = [&] { return std::int32_t(stream.below(at++, std::uint64_t(tiny_vocabulary))); };
    tokens[0] = drawn();
    for (std::size_t i = 1; i < tokens.size(); ++i)
      tokens[i] = d % 2 == 0 ? std::int32_t((tokens[i - 1] + 1) % tiny_vocabulary) : drawn();
    text.append(tokens, {});
  }
  return text;
}

/// A few updates a phase, three or four documents each, logits four tokens at a time, a clip that bites.
inline accrete::recipe tiny_recipe(accrete::index_t steps = 3) {
  accrete::recipe r;
  r.steps = steps;
  r.batch_tokens = 24;
  r.peak_learning_rate = 1e-2;
  r.min_learning_rate = 1e-4;
  r.temperature = 1.5;
  r.weight_decay = 0.1;
  r.logits_bytes = 1000;
  return r;
}

inline accrete::train::text_options tiny_options(std::filesystem::path cache = {}) {
  accrete::train::text_options o;
  o.cache_folder = std::move(cache);
  o.validation_documents = 12;
  return o;
}

/// Everything one run needs, built in the order it is needed. `run.trainer` and `run.student` are there to be
/// looked into, also from inside the events.
template <class Placement, class Schedule, class B = accrete::reference::backend<double>>
struct tiny_run {
  accrete::recipe recipe;
  accrete::teacher<B> teacher;
  accrete::data::corpus text;
  accrete::index_t updates;  ///< whose text the shard holds
  accrete::train::prepared_text<B> prepared;
  accrete::train::run_data<B> data;
  accrete::student<Placement, Schedule, B> student;
  accrete::train::trainer<B> trainer;

  explicit tiny_run(accrete::recipe const& r, accrete::train::run_events events = {},
                    accrete::train::text_options const& options = tiny_options(), tiny_shape const& shape = {},
                    accrete::train::checkpoint_options keep = {})
      : recipe(r),
        teacher(tiny_teacher<B>(shape)),
        text(tiny_corpus()),
        updates(accrete::train::shard_updates(accrete::growth::plan_view(Schedule::plan), r)),
        prepared(teacher, text, r, updates, options),
        data(prepared.for_updates(updates, r.seed)),
        student(teacher, r.seed),
        trainer(student, teacher, data, r, std::move(events), std::move(keep)) {}
  tiny_run(tiny_run const&) = delete;
  tiny_run& operator=(tiny_run const&) = delete;

  [[nodiscard]] accrete::train::run_result go() { return trainer.run(); }
  [[nodiscard]] snapshot weights() { return values_of(student); }

  /// The walk over the shard that the trainer should take.
  [[nodiscard]] accrete::data::document_iterator documents() const {
    return {*data.training, data.shard, recipe.seed};
  }
};

/// Sums over `batch` made by hand, with the recipe's weights; `backward` adds gradients to the student.
template <class Run>
accrete::distillation::loss_sums sums_by_hand(Run& run, accrete::data::ragged_batch const& batch,
                                              bool backward = false) {
  step_by_hand d(run.teacher, run.student, batch);
  d.weights = run.recipe.weights(batch.num_targets);
  return backward ? d.step() : d.losses();
}

/// Whether two runs logged the same, times apart.
inline bool same_record(accrete::train::step_record const& a, accrete::train::step_record const& b) {
  return a.phase == b.phase && a.step == b.step && a.phase_step == b.phase_step &&
         a.active_layers == b.active_layers && a.tokens == b.tokens && a.targets == b.targets &&
         a.loss == b.loss && a.kd == b.kd && a.ce == b.ce && a.learning_rate == b.learning_rate &&
         a.gradient_norm == b.gradient_norm && a.clip_scale == b.clip_scale;
}
inline bool same_records(std::vector<accrete::train::step_record> const& a,
                         std::vector<accrete::train::step_record> const& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!same_record(a[i], b[i])) return false;
  return true;
}
inline bool same_record(accrete::train::evaluation_record const& a,
                        accrete::train::evaluation_record const& b) {
  return a.phase == b.phase && a.step == b.step && a.end_of_phase == b.end_of_phase &&
         a.active_layers == b.active_layers && a.kd == b.kd && a.ce == b.ce && a.targets == b.targets &&
         a.tokens.total == b.tokens.total && a.tokens.unique == b.tokens.unique &&
         a.tokens.active_layer == b.tokens.active_layer;
}
inline bool same_records(std::vector<accrete::train::evaluation_record> const& a,
                         std::vector<accrete::train::evaluation_record> const& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!same_record(a[i], b[i])) return false;
  return true;
}
inline bool same_result(accrete::train::run_result const& a, accrete::train::run_result const& b) {
  return a.student == b.student && a.seed == b.seed && same_records(a.steps, b.steps) &&
         same_records(a.evaluations, b.evaluations) && a.skipped == b.skipped && a.finished == b.finished;
}

/// All that training knows of a student: values, moments and update counts.
template <class Student>
snapshot training_state_of(Student& s) {
  snapshot all;
  s.parameters([&](auto& p) {
    all.push_back(named(p.name(), p.value.view()));
    if (!p.trainable()) return;
    all.push_back(named(p.name() + " first moment", p.moment1.view()));
    all.push_back(named(p.name() + " second moment", p.moment2.view()));
    all.push_back({p.name() + " updates", {double(p.updates)}});
  });
  return all;
}

}  // namespace test
