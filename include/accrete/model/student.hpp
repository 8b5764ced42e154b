#pragma once
#include <memory>
#include <string>

#include "accrete/backend/backend.hpp"
#include "accrete/core/rng.hpp"
#include "accrete/growth/schedule.hpp"
#include "accrete/model/block_stack.hpp"
#include "accrete/model/fingerprint.hpp"
#include "accrete/model/grown_model.hpp"
#include "accrete/model/layer.hpp"
#include "accrete/model/teacher.hpp"
#include "accrete/placement/norm_placement.hpp"

namespace accrete::inline v0 {

namespace model {

/// Says what is wrong with the arguments of a student before anything else is looked at.
template <class NormPlacement, class GrowthSchedule, class Backend, class Layer>
struct student_checks {
  [[no_unique_address]] check_norm_placement<NormPlacement> placement_checked;
  [[no_unique_address]] check_growth_schedule<GrowthSchedule> schedule_checked;
  [[no_unique_address]] layer::check_decoder_layer<Layer> layer_checked;
  static_assert(
      backend<Backend>,
      "[accrete] student: Backend must be a backend such as cpu::backend<float>. Its operations are listed "
      "in accrete/backend/backend.hpp");
};

}  // namespace model

/// The model that is grown. One type for each configuration; what it computes depends on (NormPlacement,
/// Backend) alone and lives in model::block_stack, all else on the backend: model::grown_model.
template <class NormPlacement, class GrowthSchedule, class Backend, class Layer = layer::like_teacher>
class student : model::student_checks<NormPlacement, GrowthSchedule, Backend, Layer>,
                public model::grown_model<Backend> {
 public:
  using placement_type = NormPlacement;
  using schedule_type = GrowthSchedule;
  using layer_type = Layer;
  using stack_type = model::block_stack<NormPlacement, Backend>;
  using parameter = model::parameter<Backend>;
  static constexpr auto const& plan = GrowthSchedule::plan;

  /// Begins phase 0: the first blocks are drawn from `s`, the head copied from the teacher.
  student(teacher<Backend>& of, seed s)
      : model::grown_model<Backend>(
            of,
            std::make_unique<stack_type>(
                of.context(),
                model::layer_shape(of.config(), layer::features_of<NormPlacement, Layer>(of.config())),
                growth::plan_view(plan).final_depth(), of.max_positions()),
            growth::plan_view(plan), configuration_name(),
            model::fingerprint<NormPlacement>(growth::plan_view(plan).final_depth()), s) {}

  [[nodiscard]] stack_type& stack() { return static_cast<stack_type&>(model::grown_model<Backend>::stack()); }
  [[nodiscard]] static std::string configuration_name() {
    return placement::name_of<NormPlacement>() + ", " + GrowthSchedule::name();
  }
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
