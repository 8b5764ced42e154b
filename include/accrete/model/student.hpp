#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "accrete/core/error.hpp"
#include "accrete/growth/schedule.hpp"
#include "accrete/model/block_stack.hpp"
#include "accrete/model/layer.hpp"
#include "accrete/model/teacher.hpp"

namespace accrete::inline v0 {

/// The model that is grown: blocks of decoder layers under a placement, the teacher's embedding (frozen), the
/// teacher's head (a copy of its own, trained), and ends whose norms start from the teacher's final norm. One
/// type for each configuration; forward and backward depend on (NormPlacement, Backend) alone.
template <class NormPlacement, class GrowthSchedule, class Backend, class Layer = layer::like_teacher>
class student {
  [[no_unique_address]] check_norm_placement<NormPlacement> placement_is_sound_;
  [[no_unique_address]] check_growth_schedule<GrowthSchedule> schedule_is_sound_;

 public:
  using placement_type = NormPlacement;
  using schedule_type = GrowthSchedule;
  using backend_type = Backend;
  using layer_type = Layer;
  using stack_type = model::block_stack<NormPlacement, Backend>;
  using parameter = model::parameter<Backend>;
  static constexpr auto const& plan = GrowthSchedule::plan;

  /// Begins phase 0: the first blocks are drawn, the head copied.
  student(teacher<Backend>& of, seed s)
      : ctx_(of.context()),
        config_(of.config()),
        seed_(s),
        embedding_(of.embedding()),
        stack_(ctx_, {config_, layer::head_norms<NormPlacement, Layer>(config_)}, plan.final_depth(),
               of.max_positions(), config_.rope_theta),
        head_(model::parameter_role::head, model::named_rows({{"lm_head.weight", config_.vocab_size}}),
              config_.hidden_size) {
    copy(ctx_, of.head()->view().flat(), head_.value.view().flat());
    for (auto* ends : {&stack_.entry_gains(), &stack_.readout_gains()})
      for (auto& gain : *ends) copy(ctx_, of.final_norm().gain(), gain.gain());
    begin_phase(0);
  }

  /// Appends what phase p activates (old weights are not touched) and marks what it trains; gradients and
  /// moments of what is frozen are freed, those of what is new are zero.
  void begin_phase(int p) {
    if (p < 0 || p >= plan.num_phases())
      throw config_error("student::begin_phase", "phase " + std::to_string(p),
                         "0 to " + std::to_string(plan.num_phases() - 1));
    auto const& phase = plan.phases[std::size_t(p)];
    int const first_new = stack_.num_layers();
    for (int l = first_new; l < plan.active_layers(p); ++l)
      stack_.append(model::fresh_layer<NormPlacement>(ctx_, stack_.shape(), {l, plan.final_depth()}, seed_));
    bool const all = phase.what == growth::trains::everything || p == 0;
    bool const ends = all || phase.what == growth::trains::new_block_and_ends;
    int const first_of_block = first_new < stack_.num_layers() ? first_new : newest_block_;
    newest_block_ = first_of_block;
    head_.set_trainable(ends);
    for (auto* gains : {&stack_.entry_gains(), &stack_.readout_gains()})
      for (auto& gain : *gains) gain.set_trainable(ends);
    for (int l = 0; l < stack_.num_layers(); ++l)
      stack_.layers()[std::size_t(l)].parameters(
          [&](parameter& weight) { weight.set_trainable(all || l >= first_of_block); });
    phase_ = p;
  }

  [[nodiscard]] Backend const& context() const { return ctx_; }
  [[nodiscard]] io::model_config const& config() const { return config_; }
  [[nodiscard]] int phase() const { return phase_; }
  [[nodiscard]] int active_layers() const { return stack_.num_layers(); }
  [[nodiscard]] stack_type& stack() { return stack_; }
  [[nodiscard]] parameter& head() { return head_; }
  [[nodiscard]] model::matrix_in<Backend> embedding() const { return embedding_->view(); }

  /// What the phase's steps need, for at most `tokens` tokens each.
  [[nodiscard]] typename stack_type::workspace make_workspace(index_t tokens) {
    return stack_.make_workspace(tokens, true);
  }
  /// What the head reads, [T, D].
  model::matrix<Backend> forward(model::token_batch<typename Backend::space> const& batch,
                                 typename stack_type::workspace& w) {
    return stack_.forward(ctx_, embedding(), batch, w);
  }
  /// From w.dhidden to all gradients of the stack, which are added to.
  void backward(model::token_batch<typename Backend::space> const& batch, typename stack_type::workspace& w) {
    stack_.backward(ctx_, batch, w);
  }

  /// Every parameter of the active student but the frozen embedding, in a fixed order.
  template <class Visit>
  void parameters(Visit&& visit) {
    stack_.parameters(visit);
    visit(head_);
  }

  [[nodiscard]] static std::string name() {
    return placement::name_of<NormPlacement>() + ", " + GrowthSchedule::name();
  }

 private:
  Backend ctx_;
  io::model_config config_;
  seed seed_;
  std::shared_ptr<typename teacher<Backend>::table const> embedding_;
  stack_type stack_;
  parameter head_;
  int phase_ = 0;
  int newest_block_ = 0;
};

/// Calls `visit(name, rows, role)` for each named weight of a model, fused ones part by part: the one traversal
/// that export, checkpoints and reports share. Names are Hugging Face's.
template <class Model, class Visit>
void visit_parameters(Model& m, Visit&& visit) {
  m.parameters([&](auto& p) {
    for (auto const& part : p.parts) visit(part.name, p.value.view().slice(part.first, part.rows), p.role);
  });
}

}  // namespace accrete::inline v0
