#pragma once
#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "accrete/data/document_order.hpp"
#include "accrete/distill/teacher_states.hpp"
#include "accrete/distill/vocabulary_head.hpp"
#include "accrete/model/grown_model.hpp"
#include "accrete/train/optimizer.hpp"
#include "accrete/train/phases.hpp"
#include "accrete/train/recipe.hpp"
#include "accrete/train/records.hpp"

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
  std::function<void(std::string const&)> on_note{};  ///< phase begins, memory: one line each
  std::function<bool()> stop_wanted{};                ///< asked after each update
};

/// Walks a student through its schedule's plan: distillation steps, growth, evaluation. Compiled once for each
/// placement and backend.
template <norm_placement P, backend B>
class trainer {
  using student_type = model::grown_model<P, B>;
  using workspace = typename student_type::workspace;

 public:
  trainer(student_type& s, teacher<B>& t, run_data<B> text, recipe r, run_events events = {})
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
  }

  /// The whole plan, or up to the step after which a stop is wanted.
  run_result run() {
    require_fresh();
    auto const started = clock::now();
    auto const phases = phases_of(student_.schedule(), recipe_);
    run_result result;
    result.student = student_.name();
    result.seed = recipe_.seed.value;
    result.steps.reserve(std::size_t(total_updates(phases)));
    for (int p = 0; p < student_.schedule().num_phases(); ++p) {
      begin_phase(p);
      auto const& span = phases[std::size_t(p)];
      for (index_t i = 1; i <= span.count; ++i) {
        index_t const step = span.first + i;
        result.steps.push_back(update(p, step, i, span.rate.at(step - span.schedule_first)));
        if (events_.on_step) events_.on_step(result.steps.back());
        bool const end = i == span.count;
        if (end || (recipe_.evaluate_every > 0 && i % recipe_.evaluate_every == 0)) {
          result.evaluations.push_back(evaluate(p, step, end));
          if (events_.on_evaluation) events_.on_evaluation(result.evaluations.back());
        }
        if (step < total_updates(phases) && events_.stop_wanted && events_.stop_wanted()) {
          result.seconds = seconds_since(started);
          return result;
        }
      }
    }
    result.seconds = seconds_since(started);
    result.finished = true;
    return result;
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

  /// One optimizer update on the next documents.
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
    if (!std::isfinite(r.loss)) refuse_loss("step " + std::to_string(step), step, r.loss, r.kd, r.ce);
    auto const report = apply_adamw(student_, recipe_, learning_rate, step);
    r.learning_rate = learning_rate;
    r.gradient_norm = report.gradient_norm;
    r.clip_scale = report.clip_scale;
    r.operations = operations(batch_);
    counts_.total += r.tokens;
    count_unique(r.tokens);
    counts_.active_layer += double(r.tokens) * r.active_layers;
    r.seconds = seconds_since(started);
    return r;
  }

  /// Losses of the student as it is on the fixed validation documents; changes nothing of it.
  evaluation_record evaluate(int p, index_t step, bool end_of_phase) {
    distillation::loss_sums sums;
    data::document_iterator documents(*data_.validation, validation_, recipe_.seed);
    do {
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
    return {p, step, end_of_phase, student_.active_layers(), kd, ce, sums.targets, counts_};
  }

  [[nodiscard]] data::order_state order_state() const { return order_.state(); }
  [[nodiscard]] workspace const& step_memory() const { return workspace_; }
  [[nodiscard]] token_counts const& counts() const { return counts_; }

 private:
  using clock = std::chrono::steady_clock;
  static double seconds_since(clock::time_point t) {
    return std::chrono::duration<double>(clock::now() - t).count();
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

  /// A phase may start over in the first pass: batches it has seen are not counted again. The borders of that
  /// pass' batches are always the same.
  void count_unique(index_t tokens) {
    auto const [epoch, position] = order_.state();
    if (epoch > 0 || position <= seen_) return;
    seen_ = position;
    counts_.unique += tokens;
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
    student_.parameters([&](auto& p) {
      if (!std::isfinite(sum_of_squares(student_.context(), p.value.view().flat())))
        throw numeric_error(where, "a weight of " + p.name() + " that is not finite", "finite numbers",
                            "lower the learning rate");
    });
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
  token_counts counts_;
  index_t seen_ = 0;  // documents of the shard that the first pass has reached
};

}  // namespace accrete::inline v0::train
