#pragma once
#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "accrete/data/document_order.hpp"
#include "accrete/distill/teacher_states.hpp"
#include "accrete/distill/vocabulary_head.hpp"
#include "accrete/model/grown_model.hpp"
#include "accrete/train/checkpoint_folder.hpp"
#include "accrete/train/finite.hpp"
#include "accrete/train/optimizer.hpp"
#include "accrete/train/phases.hpp"
#include "accrete/train/recipe.hpp"
#include "accrete/train/records.hpp"
#include "accrete/train/run_facts.hpp"
#include "accrete/train/run_keeper.hpp"
#include "accrete/train/run_state.hpp"

namespace accrete::inline v0::train {

/// The text of a run and the teacher's answers on it.
template <backend B>
struct run_data {
  data::corpus const* training = nullptr;
  data::shard shard;  ///< documents of `training`, in the order of the first pass
  distillation::teacher_states<B>* training_states = nullptr;
  data::corpus const* validation = nullptr;  ///< the same documents at every evaluation
  distillation::teacher_states<B>* validation_states = nullptr;
};

/// Who listens. None of it changes a bit of the run.
struct run_events {
  std::function<void(step_record const&)> on_step{};
  std::function<void(evaluation_record const&)> on_evaluation{};
  std::function<void(std::string const&)> on_note{};  ///< phase begins, memory, what went wrong: one line each
  std::function<bool()>
      stop_wanted{};  ///< asked after each update, and during evaluations of a run that is kept
  /// The run goes on from a checkpoint, with the records that it holds.
  std::function<void(run_state const&, std::filesystem::path const&)> on_resume{};
};

/// Walks a student through its schedule's plan: distillation steps, growth, evaluation. Compiled once for each
/// backend.
template <backend B>
class trainer {
  using student_type = model::grown_model<B>;
  using workspace = typename student_type::workspace;

 public:
  /// With a folder among `keep`, the run is kept there while it goes, and goes on from what is there.
  trainer(student_type& s, teacher<B>& t, run_data<B> text, recipe r, run_events events = {},
          checkpoint_options keep = {})
      : student_(s),
        teacher_(t),
        data_(std::move(text)),
        recipe_(r.checked()),
        events_(std::move(events)),
        head_(t.config().vocab_size,
              distillation::slice_lengths::within(r.logits_bytes, t.config().vocab_size,
                                                  sizeof(typename B::scalar), r.micro_capacity())),
        order_(*data_.training, data_.shard, r.seed),
        validation_(data::whole_shard(*data_.validation, r.seed)) {
    require_fit(*data_.training, data_.shard, "training");
    require_fit(*data_.validation, validation_, "validation");
    batch_.reserve(recipe_.batch_tokens, recipe_.batch_tokens);
    micro_.reserve(recipe_.micro_capacity(), recipe_.micro_capacity());
    if (!keep.folder.empty())
      keeper_.emplace(student_, facts_of(student_, teacher_, data_, validation_, recipe_), std::move(keep),
                      events_.on_note);
  }

  /// The whole plan, or up to the update after which a stop is wanted. What has been done by then is written
  /// before anything is thrown.
  run_result run() {
    require_fresh();
    auto const phases = phases_of(student_.schedule(), recipe_);
    index_t const total = total_updates(phases);
    bool begun = restore();  // a checkpoint stands inside of its phase, or at its end
    state_.result.student = student_.name();
    state_.result.seed = recipe_.seed.value;
    state_.result.steps.reserve(std::size_t(total));
    started_ = clock::now();
    try {
      for (int p = state_.phase; p < student_.schedule().num_phases(); ++p) {
        auto const& span = phases[std::size_t(p)];
        if (!begun) begin_phase(p);
        if (begun && state_.phase_step > 0 && !evaluate_where_due(span)) return so_far().result;
        begun = false;
        while (state_.phase_step < span.count) {
          index_t const i = state_.phase_step + 1, step = span.first + i;
          state_.result.steps.push_back(update(p, step, i, span.rate.at(step - span.schedule_first)));
          state_.phase_step = i;
          if (events_.on_step) events_.on_step(state_.result.steps.back());
          bool const leave = events_.stop_wanted && events_.stop_wanted();
          if (keeper_) keeper_->keep_where_due(so_far(), leave, step == total);
          if (leave && keeper_) return so_far().result;  // in time: an evaluation is made when it goes on
          if (!evaluate_where_due(span)) return so_far().result;
          if (leave && step < total) return so_far().result;
        }
      }
    } catch (...) {
      if (keeper_) keeper_->keep_after_error(so_far());
      throw;
    }
    state_.result.finished = true;
    return so_far().result;
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
    state_.phase = p;
    state_.phase_step = 0;
    state_.order = order_.state();
    enter_phase(p);
  }

  /// One optimizer update on the next documents. Where its loss or gradient is not finite and the recipe lets
  /// some pass, nothing is updated: not a weight, moment or count.
  step_record update(int p, index_t step, index_t phase_step, double learning_rate) {
    auto const started = clock::now();
    order_.next_batch(batch_, recipe_.batch_tokens);
    zero_gradients(student_);
    auto const weights = recipe_.weights(batch_.num_targets);
    distillation::loss_sums losses;
    for_each_micro_batch(
        [&](data::ragged_batch const& micro) { losses += accumulate_gradients(micro, weights); });
    step_record r;
    r.phase = p;
    r.step = step;
    r.phase_step = phase_step;
    r.active_layers = student_.active_layers();
    r.tokens = batch_.num_tokens();
    r.targets = batch_.num_targets;
    r.kd = losses.mean_kd();
    r.ce = losses.mean_ce();
    r.loss = recipe_.alpha * r.kd + recipe_.gamma * r.ce;
    r.learning_rate = learning_rate;
    r.operations = operations(batch_);
    try {
      if (!std::isfinite(r.loss)) refuse_loss("step " + std::to_string(step), step, r.loss, r.kd, r.ce);
      auto const report = apply_adamw(student_, recipe_, learning_rate, step);
      r.gradient_norm = report.gradient_norm;
      r.clip_scale = report.clip_scale;
      count(r);
    } catch (numeric_error const& e) {
      skip(r, e);
    }
    state_.order = order_.state();
    r.seconds = seconds_since(started);
    return r;
  }

  /// Losses of the student as it is on the fixed validation documents; changes nothing of it.
  evaluation_record evaluate(int p, index_t step, bool end_of_phase) {
    return *evaluate_unless(p, step, end_of_phase, [] { return false; });
  }

  [[nodiscard]] data::order_state order_state() const { return order_.state(); }
  [[nodiscard]] workspace const& step_memory() const { return workspace_; }
  [[nodiscard]] token_counts const& counts() const { return state_.counts; }

 private:
  using clock = std::chrono::steady_clock;
  static double seconds_since(clock::time_point t) {
    return std::chrono::duration<double>(clock::now() - t).count();
  }

  /// Memory for the steps of the phase that the student is in.
  void enter_phase(int p) {
    workspace_ = workspace();  // freed before the larger one is made
    workspace_ = student_.make_workspace(recipe_.micro_capacity());
    if (events_.on_note && p == 0 && !student_.layer_difference().empty())
      events_.on_note(student_.layer_difference());
    if (events_.on_note)
      events_.on_note("phase " + std::to_string(p) + ": " + std::to_string(student_.active_layers()) +
                      " layers, " +
                      std::to_string(phases_of(student_.schedule(), recipe_)[std::size_t(p)].count) +
                      " updates, " + std::to_string((workspace_.memory.capacity() + head_.bytes()) >> 20) +
                      " MiB of activations and logits");
  }

  /// What the newest checkpoint holds; false where there is none.
  bool restore() {
    auto const path = keeper_ ? keeper_->restore(state_) : std::filesystem::path();
    if (path.empty()) return false;
    order_.restore(state_.order);
    seconds_before_ = state_.result.seconds;
    enter_phase(state_.phase);
    if (events_.on_resume) events_.on_resume(state_, path);
    return true;
  }

  /// Nothing where a stop is wanted before it is through.
  template <class Stop>
  std::optional<evaluation_record> evaluate_unless(int p, index_t step, bool end_of_phase, Stop&& stop) {
    distillation::loss_sums sums;
    data::document_iterator documents(*data_.validation, validation_, recipe_.seed);
    do {
      if (stop()) return std::nullopt;
      documents.next_batch(micro_, recipe_.micro_capacity());
      auto const batch = model::views_of(micro_);
      auto const asked = data_.validation_states->hidden(micro_);
      auto const hidden = student_.forward(batch, workspace_);
      sums += head_.distill(student_.context(), asked, teacher_.head()->view(), hidden, student_.head(),
                            batch.targets, recipe_.weights(micro_.num_targets), {});
    } while (!documents.at_end_of_epoch());
    double const kd = sums.mean_kd(), ce = sums.mean_ce();
    if (double const loss = recipe_.alpha * kd + recipe_.gamma * ce; !std::isfinite(loss))
      refuse_loss("evaluation after step " + std::to_string(step), 0, loss, kd, ce);
    return evaluation_record{p,  step, end_of_phase, student_.active_layers(),
                             kd, ce,   sums.targets, state_.counts};
  }

  /// False where a stop is wanted meanwhile, of a run that is kept: it is made when the run goes on.
  bool evaluate_where_due(phase_steps const& span) {
    index_t const i = state_.phase_step;
    bool const end = i == span.count;
    if (!end && (recipe_.evaluate_every == 0 || i % recipe_.evaluate_every != 0)) return true;
    if (state_.evaluated()) return true;  // before it was left
    auto const made = evaluate_unless(state_.phase, span.first + i, end,
                                      [&] { return keeper_ && events_.stop_wanted && events_.stop_wanted(); });
    if (!made) {
      keeper_->keep_on_leaving(so_far());
      return false;
    }
    state_.result.evaluations.push_back(*made);
    if (keeper_) keeper_->keep_best(so_far());
    if (events_.on_evaluation) events_.on_evaluation(*made);
    return true;
  }

  run_state const& so_far() {
    state_.result.seconds = seconds_before_ + seconds_since(started_);
    return state_;
  }

  distillation::loss_sums accumulate_gradients(data::ragged_batch const& micro,
                                               distillation_weights const& weights) {
    auto const batch = model::views_of(micro);
    auto const asked = data_.training_states->hidden(micro);
    auto const hidden = student_.forward(batch, workspace_);
    auto const sums = head_.distill(student_.context(), asked, teacher_.head()->view(), hidden, student_.head(),
                                    batch.targets, weights, workspace_.dhidden.slice(0, batch.num_tokens()));
    student_.backward(batch, workspace_);
    return sums;
  }

  /// The batch as it is if it fits, else whole documents at a time.
  template <class Use>
  void for_each_micro_batch(Use&& use) {
    index_t const capacity = recipe_.micro_capacity();
    if (batch_.num_tokens() <= capacity) return use(batch_);
    for (index_t d = 0; d < batch_.num_documents();) {
      micro_.clear();
      for (; d < batch_.num_documents(); ++d) {
        auto const document = batch_.document(d);
        if (!micro_.empty() && micro_.num_tokens() + index_t(document.size()) > capacity) break;
        micro_.append(document, batch_.documents[std::size_t(d)]);
      }
      use(micro_);
    }
  }

  /// Useful floating-point operations of an update: forward, backward where something below still trains,
  /// heads.
  double operations(data::ragged_batch const& batch) {
    double const length = double(batch.num_tokens()) / double(std::max<index_t>(1, batch.num_documents()));
    double const per_layer = student_.stack().multiply_adds(length) / student_.active_layers();
    double trained = 0;  // products of a backward, in forwards: one for the input, one for the weights
    for (int l = workspace_.first_kept; l < student_.active_layers(); ++l)
      trained += student_.stack().layers()[std::size_t(l)].qkv.trainable() ? 2 : 1;
    double const head = double(teacher_.config().vocab_size) * double(student_.config().hidden_size);
    double const head_products = (student_.head().trainable() ? 3 : 2) + 1;  // and the teacher's
    double multiply_adds = per_layer * (student_.active_layers() + trained) + head_products * head;
    if (data_.training_states->is_live()) multiply_adds += teacher_.stack().multiply_adds(length);
    return 2.0 * multiply_adds * double(batch.num_tokens());
  }

  /// A phase may start over in the first pass: batches it has seen are not counted again as unique. The borders
  /// of that pass' batches are always the same.
  void count(step_record const& r) {
    state_.counts.total += r.tokens;
    state_.counts.active_layer += double(r.tokens) * r.active_layers;
    auto const [epoch, position] = order_.state();
    if (epoch > 0 || position <= state_.seen) return;
    state_.seen = position;
    state_.counts.unique += r.tokens;
  }

  /// To be called while `why` is being handled, which goes on where the update must not be passed over: when
  /// the run has had all that it may, or when a weight is to blame, as nothing would mend that.
  void skip(step_record& r, numeric_error const& why) {
    if (recipe_.skip_nonfinite == 0) throw;
    require_finite_weights(student_, "step " + std::to_string(r.step));
    if (state_.result.skipped == recipe_.skip_nonfinite)
      throw numeric_error(std::string(why.what()) + ", after " + std::to_string(state_.result.skipped) +
                          " that were skipped");
    ++state_.result.skipped;
    r.skipped = true;
    r.gradient_norm = std::numeric_limits<double>::quiet_NaN();
    r.clip_scale = 0;
    if (events_.on_note)
      events_.on_note(std::string(why.what()) + "; skipped, " + std::to_string(state_.result.skipped) + " of " +
                      std::to_string(recipe_.skip_nonfinite));
  }

  /// A student that was trained before would go through the plan with a later phase's blocks and moments.
  void require_fresh() {
    bool fresh = student_.phase() == 0 && student_.active_layers() == student_.schedule().active_layers(0);
    student_.parameters([&](auto& p) { fresh = fresh && p.updates == 0; });
    if (!fresh)
      throw config_error("trainer", "a student that has been trained already", "a fresh one",
                         "make another student for another run");
  }

  /// What would stop the run hours later, at its first evaluation even, is refused before it begins.
  void require_fit(data::corpus const& text, data::shard const& documents, char const* which) const {
    index_t const capacity = recipe_.micro_capacity();
    index_t const longest = (std::min)(capacity, teacher_.max_positions());
    for (index_t d : documents)
      if (text.length(d) > longest)
        throw config_error(
            "trainer",
            std::string(which) + " document " + std::to_string(d) + " of " + std::to_string(text.length(d)) +
                " tokens",
            "at most " + std::to_string(longest) +
                (longest == capacity ? ", what is in memory at once" : ", the teacher's positions"),
            longest == capacity ? "cut documents shorter, or raise batch_tokens and micro_tokens"
                                : "cut documents shorter");
  }

  /// Names a parameter where one is to blame: a weight first, as it makes all gradients what it is.
  [[noreturn]] void refuse_loss(std::string const& where, index_t step, double loss, double kd, double ce) {
    require_finite_weights(student_, where);
    if (step > 0) gradient_norm(student_, step);
    throw numeric_error(
        where,
        "a loss of " + std::to_string(loss) + " (kd " + std::to_string(kd) + ", ce " + std::to_string(ce) + ")",
        "a finite number", "lower the learning rate, or look at the batch");
  }

  student_type& student_;
  teacher<B>& teacher_;
  run_data<B> data_;
  recipe recipe_;
  run_events events_;
  distillation::vocabulary_head<B> head_;
  data::document_iterator order_;
  data::shard validation_;
  data::ragged_batch batch_, micro_;
  workspace workspace_;
  run_state state_;
  std::optional<run_keeper<student_type>> keeper_;
  clock::time_point started_ = clock::now();
  double seconds_before_ = 0;  // of attempts that this one goes on from
};

}  // namespace accrete::inline v0::train
