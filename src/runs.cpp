// The way from files to a teacher and through a run, for both formats of numbers: what compiled.hpp promises.
#include "accrete/accrete.hpp"

namespace accrete::inline v0 {

#define RUNS(B)                                                                                         \
  template teacher<B> load_teacher(std::filesystem::path const&, B, index_t, placement::pre);           \
  template distilled distill(model::grown_model<B>&, teacher<B>&, data::corpus const&, recipe const&,   \
                             train::text_options const&, train::run_events, train::checkpoint_options); \
  template train::run_state train::load_student(model::grown_model<B>&, teacher<B> const&,              \
                                                std::filesystem::path const&);                          \
  template distillation::loss_sums train::cross_entropy_of(teacher<B>&, data::corpus const&, index_t,   \
                                                           std::size_t);                                \
  template std::vector<std::int32_t> model::generate(teacher<B>&, std::vector<std::int32_t>, index_t,   \
                                                     sampling const&,                                   \
                                                     std::function<void(std::int32_t)> const&);

RUNS(cpu::backend<float>)
RUNS(cpu::backend<bfloat16>)

}  // namespace accrete::inline v0
