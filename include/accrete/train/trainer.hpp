#pragma once
#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "accrete/core/error.hpp"
#include "accrete/core/view.hpp"
#include "accrete/data/document_order.hpp"
#include "accrete/data/ragged_batch.hpp"
#include "accrete/data/shard.hpp"
#include "accrete/growth/schedule.hpp"
#include "accrete/model/grown_model.hpp"
#include "accrete/model/teacher.hpp"
#include "accrete/train/checkpoint_folder.hpp"
#include "accrete/train/distillation_step.hpp"
#include "accrete/train/finite.hpp"
#include "accrete/train/optimizer.hpp"
#include "accrete/train/phases.hpp"
#include "accrete/train/recipe.hpp"
#include "accrete/train/records.hpp"
#include "accrete/train/run_data.hpp"
#include "accrete/train/run_facts.hpp"
#include "accrete/train/run_keeper.hpp"
#include "accrete/train/run_recorder.hpp"
#include "accrete/train/run_state.hpp"

namespace accrete::inline v0::train {

/// Walks a student through its schedule's plan: distillation steps, growth, evaluation. Compiled once for each
/// backend.
template <backend B>
class trainer {
  using student_type = model::grown_model<B>;

 public:
  /// With a folder among `keep`, the run is kept there while it goes, and goes on from what is there.
  trainer(student_type& s, teacher<B>& t, run_data<B> text, recipe r, run_events events = {},
          checkpoint_options keep = {})
      : student_(s),
        teacher_(t),
        data_(std::move(text)),
        recipe_(r.checked()),
        recorder_(std::move(events)),
        step_(student_, teacher_, recipe_),
        order_(*data_.training, data_.shard, r.seed),
        validation_(data::whole_shard(*data_.validation, r.seed)) {
    require_fit(*data_.training, data_.shard, "training", recipe_, teacher_);
    require_fit(*data_.validation, validation_, "validation", recipe_, teacher_);
    batch_.reserve(recipe_.batch_tokens, recipe_.batch_tokens);
    if (!keep.folder.empty())
      keeper_.emplace(student_, facts_of(student_, teacher_, data_, validation_, recipe_), std::move(keep),
                      recorder_.events().on_note);
  }

  /// The whole plan, or up to the update after which a stop is wanted. What has been done by then is written
  /// before anything is thrown.
  run_result run() {
    require_fresh(student_);
    auto const phases = phases_of(student_.schedule(), recipe_);
    index_t const total = total_updates(phases);
    bool begun = restore();  // a checkpoint stands inside of its phase, or at its end
    recorder_.start(student_.name(), recipe_.seed.value, total);
    auto& state = recorder_.state;
    try {
      for (int p = state.phase; p < student_.schedule().num_phases(); ++p) {
        auto const& span = phases[std::size_t(p)];
        if (!begun) begin_phase(p);
        if (begun && state.phase_step > 0 && !evaluate_where_due(span)) return recorder_.so_far().result;
        begun = false;
        while (state.phase_step < span.count) {
          index_t const i = state.phase_step + 1, step = span.first + i;
          state.result.steps.push_back(update(p, step, i, span.rate.at(step - span.schedule_first)));
          state.phase_step = i;
          recorder_.tell(state.result.steps.back());
          bool const leave = recorder_.stop_wanted();
          if (keeper_) keeper_->keep_where_due(recorder_.so_far(), leave, step == total);
          if (leave && keeper_) return recorder_.so_far().result;  // an evaluation is made when it goes on
          if (!evaluate_where_due(span)) return recorder_.so_far().result;
          if (leave && step < total) return recorder_.so_far().result;
        }
      }
    } catch (...) {
      if (keeper_) keeper_->keep_after_error(recorder_.so_far());
      throw;
    }
    state.result.finished = true;
    return recorder_.so_far().result;
  }

  /// Applies what the plan says of phase p: new blocks, what trains, optimizer state, data; sizes the step's
  /// memory.
  void begin_phase(int p) {
    auto const& phase = student_.schedule().phases[std::size_t(p)];
    if (p > 0) {
      student_.begin_phase(p);
      if (phase.optimizer == growth::optimizer_state::reset) reset_optimizer(student_);
      if (phase.data == growth::data_order::reset) order_.reset();
    }
    recorder_.state.phase = p;
    recorder_.state.phase_step = 0;
    recorder_.state.order = order_.state();
    enter_phase(p);
  }

  /// One optimizer update on the next documents. Where its loss or gradient is not finite and the recipe lets
  /// some pass, nothing is updated: not a weight, moment or count.
  step_record update(int p, index_t step, index_t phase_step, double learning_rate) {
    auto const started = std::chrono::steady_clock::now();
    order_.next_batch(batch_, recipe_.batch_tokens);
    auto const losses = step_.compute_gradients(batch_, *data_.training_states);
    step_record r;
    r.phase = p;
    r.step = step;
    r.phase_step = phase_step;
    r.active_layers = student_.active_layers();
    r.tokens = batch_.num_tokens();
    r.targets = batch_.num_targets;
    r.kd = losses.mean_kd();
    r.ce = losses.mean_ce();
    r.loss = step_.loss_of(r.kd, r.ce);
    r.learning_rate = learning_rate;
    r.operations = step_.operations(batch_, data_.training_states->is_live());
    try {
      auto const report = step_.update(losses, learning_rate, step);
      r.gradient_norm = report.gradient_norm;
      r.clip_scale = report.clip_scale;
      recorder_.count(r, order_.state());
    } catch (numeric_error const& e) {
      if (recipe_.skip_nonfinite == 0) throw;
      require_finite_weights(student_, "step " + std::to_string(step));  // as nothing would mend that
      recorder_.skip(r, e, recipe_.skip_nonfinite);
    }
    recorder_.state.order = order_.state();
    r.seconds = detail::seconds_since(started);
    return r;
  }

  /// Losses of the student as it is on the fixed validation documents; changes nothing of it.
  evaluation_record evaluate(int p, index_t step, bool end_of_phase) {
    return *evaluate_unless(p, step, end_of_phase, [] { return false; });
  }

  [[nodiscard]] data::order_state order_state() const { return order_.state(); }
  [[nodiscard]] typename student_type::workspace const& step_memory() const { return step_.memory(); }
  [[nodiscard]] token_counts const& counts() const { return recorder_.state.counts; }

 private:
  /// Memory for the steps of the phase that the student is in.
  void enter_phase(int p) {
    step_.resize();
    if (p == 0 && !student_.layer_difference().empty()) recorder_.note(student_.layer_difference());
    recorder_.note("phase " + std::to_string(p) + ": " + std::to_string(student_.active_layers()) +
                   " layers, " + std::to_string(phases_of(student_.schedule(), recipe_)[std::size_t(p)].count) +
                   " updates, " + std::to_string(step_.bytes() >> 20) + " MiB of activations and logits");
  }

  /// What the newest checkpoint holds; false where there is none.
  bool restore() {
    auto const path = keeper_ ? keeper_->restore(recorder_.state) : std::filesystem::path();
    if (path.empty()) return false;
    order_.restore(recorder_.state.order);
    enter_phase(recorder_.state.phase);
    recorder_.tell_resumed(path);
    return true;
  }

  /// Nothing where a stop is wanted before it is through.
  template <class Stop>
  std::optional<evaluation_record> evaluate_unless(int p, index_t step, bool end_of_phase, Stop&& stop) {
    auto const sums = step_.losses_on(*data_.validation, validation_, *data_.validation_states,
                                      "evaluation after step " + std::to_string(step), stop);
    if (!sums) return std::nullopt;
    return evaluation_record{p,
                             step,
                             end_of_phase,
                             student_.active_layers(),
                             sums->mean_kd(),
                             sums->mean_ce(),
                             sums->targets,
                             recorder_.state.counts};
  }

  /// False where a stop is wanted meanwhile, of a run that is kept: it is made when the run goes on.
  bool evaluate_where_due(phase_steps const& span) {
    auto& state = recorder_.state;
    index_t const i = state.phase_step;
    bool const end = i == span.count;
    if (!end && (recipe_.evaluate_every == 0 || i % recipe_.evaluate_every != 0)) return true;
    if (state.evaluated()) return true;  // before it was left
    auto const made =
        evaluate_unless(state.phase, span.first + i, end, [&] { return keeper_ && recorder_.stop_wanted(); });
    if (!made) {
      keeper_->keep_on_leaving(recorder_.so_far());
      return false;
    }
    state.result.evaluations.push_back(*made);
    if (keeper_) keeper_->keep_best(recorder_.so_far());
    recorder_.tell(*made);
    return true;
  }

  student_type& student_;
  teacher<B>& teacher_;
  run_data<B> data_;
  recipe recipe_;
  run_recorder recorder_;
  distillation_step<B> step_;
  data::document_iterator order_;
  data::shard validation_;
  data::ragged_batch batch_;
  std::optional<run_keeper<student_type>> keeper_;
};

}  // namespace accrete::inline v0::train
