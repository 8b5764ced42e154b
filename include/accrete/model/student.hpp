#pragma once
#include <string>

#include "accrete/backend/backend.hpp"
#include "accrete/core/rng.hpp"
#include "accrete/growth/schedule.hpp"
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

/// The model that is grown. One type for each configuration; what it does depends on (NormPlacement, Backend)
/// alone and lives in model::grown_model.
template <class NormPlacement, class GrowthSchedule, class Backend, class Layer = layer::like_teacher>
class student : model::student_checks<NormPlacement, GrowthSchedule, Backend, Layer>,
                public model::grown_model<NormPlacement, Backend> {
 public:
  using schedule_type = GrowthSchedule;
  using layer_type = Layer;
  using parameter = model::parameter<Backend>;
  static constexpr auto const& plan = GrowthSchedule::plan;

  /// Begins phase 0: the first blocks are drawn from `s`, the head copied from the teacher.
  student(teacher<Backend>& of, seed s)
      : model::grown_model<NormPlacement, Backend>(of, layer::features_of<NormPlacement, Layer>(of.config()),
                                                   growth::plan_view(plan), configuration_name(), s) {}

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
