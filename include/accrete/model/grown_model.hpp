#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "accrete/core/error.hpp"
#include "accrete/growth/schedule.hpp"
#include "accrete/model/layer.hpp"
#include "accrete/model/stack.hpp"
#include "accrete/model/teacher.hpp"

namespace accrete::inline v0::model {

/// What all students of a backend have in common, whatever their placement and schedule: blocks of decoder
/// layers, the teacher's embedding (frozen, shared), the teacher's head (a copy of its own, trained), and ends
/// whose norms start from the teacher's final norm. The plan is read at run time, so that trainers and models
/// compile once for all schedules.
template <backend B>
class grown_model {
 public:
  using backend_type = B;
  using stack_type = model::stack<B>;
  using workspace = typename stack_type::workspace;
  using batch_type = token_batch<typename B::space>;

  /// Begins phase 0: the first blocks are drawn, the head copied. `stack` has no layers yet; `placement` tells
  /// it apart from every other, as `fingerprint` does.
  grown_model(teacher<B>& of, std::unique_ptr<stack_type> stack, growth::plan_view plan, std::string name,
              std::string placement, seed s)
      : ctx_(of.context()),
        config_(of.config()),
        plan_(plan),
        name_(std::move(name)),
        placement_(std::move(placement)),
        seed_(s),
        embedding_(of.embedding()),
        stack_(std::move(stack)),
        head_(parameter_role::head, named_rows({{"lm_head.weight", config_.vocab_size}}), config_.hidden_size) {
    copy(ctx_, of.head()->view(), head_.value.view());
    head_.refresh(ctx_);
    for (auto* ends : {&stack_->entry_gains(), &stack_->readout_gains()})
      for (auto& gain : *ends)
        if (of.has_final_norm())
          copy(ctx_, of.final_norm().as_vector(), gain.as_vector());
        else
          fill(ctx_, gain, 1.0);
    begin_phase(0);
  }

  /// Appends what phase p activates (old weights are not touched) and marks what it trains; gradients and
  /// moments of what is frozen are freed, those of what is new are zero.
  void begin_phase(int p) {
    if (p < 0 || p >= plan_.num_phases())
      throw config_error("student::begin_phase", "phase " + std::to_string(p),
                         "0 to " + std::to_string(plan_.num_phases() - 1));
    auto const& phase = plan_.phases[std::size_t(p)];
    int const first_new = stack_->num_layers();
    for (int l = first_new; l < plan_.active_layers(p); ++l) stack_->append_fresh(ctx_, seed_);
    bool const all = phase.what == growth::trains::everything || p == 0;
    bool const ends = all || phase.what == growth::trains::new_block_and_ends;
    if (first_new < stack_->num_layers()) first_of_newest_block_ = first_new;
    head_.set_trainable(ends);
    for (auto* gains : {&stack_->entry_gains(), &stack_->readout_gains()})
      for (auto& gain : *gains) gain.set_trainable(ends);
    for (int l = 0; l < stack_->num_layers(); ++l)
      stack_->layers()[std::size_t(l)].parameters(
          [&](parameter<B>& weight) { weight.set_trainable(all || l >= first_of_newest_block_); });
    phase_ = p;
  }

  [[nodiscard]] B const& context() const { return ctx_; }
  [[nodiscard]] io::model_config const& config() const { return config_; }
  [[nodiscard]] growth::plan_view schedule() const { return plan_; }
  /// "placement, schedule", as reports say it.
  [[nodiscard]] std::string const& name() const { return name_; }
  /// What its layers have that the teacher's have not, for notes; empty where they agree.
  [[nodiscard]] std::string layer_difference() const {
    return layer::difference_from(config_, stack_->shape().features);
  }
  /// Everything of its placement that changes numbers, as text.
  [[nodiscard]] std::string const& placement_fingerprint() const { return placement_; }
  [[nodiscard]] int phase() const { return phase_; }
  [[nodiscard]] int active_layers() const { return stack_->num_layers(); }
  [[nodiscard]] stack_type& stack() { return *stack_; }
  [[nodiscard]] parameter<B>& head() { return head_; }
  [[nodiscard]] matrix_in<B> embedding() const { return embedding_->view(); }

  /// What the phase's steps need, for at most `tokens` tokens each; what lasts no longer than a pass in `lent`.
  [[nodiscard]] workspace make_workspace(index_t tokens, recomputation r = recomputation::none,
                                         view<std::byte, 1, typename B::space> lent = {}) {
    return stack_->make_workspace(tokens, true, made_again_by(r, plan_.layers_per_block), lent);
  }
  /// What the head reads, [T, D].
  real_matrix<B> forward(batch_type const& batch, workspace& w) {
    return stack_->forward(ctx_, embedding(), batch, w);
  }
  /// From w.dhidden to all gradients of the stack, which are added to.
  void backward(batch_type const& batch, workspace& w) { stack_->backward(ctx_, batch, w); }

  /// Every parameter of the active student but the frozen embedding, in a fixed order.
  template <class Visit>
  void parameters(Visit&& visit) {
    stack_->parameters(visit);
    visit(head_);
  }

 private:
  B ctx_;
  io::model_config config_;
  growth::plan_view plan_;
  std::string name_;
  std::string placement_;
  seed seed_;
  std::shared_ptr<typename teacher<B>::table const> embedding_;
  std::unique_ptr<stack_type> stack_;
  parameter<B> head_;
  int phase_ = 0;
  int first_of_newest_block_ = 0;
};

}  // namespace accrete::inline v0::model
