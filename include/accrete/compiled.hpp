#pragma once
// What a program that links the compiled part need not instantiate: the way from files to a teacher and through
// a run, which depends on the backend alone. Function templates that are not inline, since compilers make the
// bodies of inline ones all the same, to put them where they are called.
#if defined(ACCRETE_COMPILED)  // set by the build that links it; without, there is nothing here
#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

#include "accrete/core/bfloat16.hpp"
#include "accrete/cpu/backend.hpp"
#include "accrete/model/generate.hpp"
#include "accrete/model/load_teacher.hpp"
#include "accrete/train/distill.hpp"
#include "accrete/train/load_student.hpp"
#include "accrete/train/perplexity.hpp"

namespace accrete::inline v0 {

extern template teacher<cpu::backend<float>> load_teacher(std::filesystem::path const&, cpu::backend<float>,
                                                          index_t, placement::pre);
extern template teacher<cpu::backend<bfloat16>> load_teacher(std::filesystem::path const&,
                                                             cpu::backend<bfloat16>, index_t, placement::pre);

extern template distilled distill(model::grown_model<cpu::backend<float>>&, teacher<cpu::backend<float>>&,
                                  data::corpus const&, recipe const&, train::text_options const&,
                                  train::run_events, train::checkpoint_options);
extern template distilled distill(model::grown_model<cpu::backend<bfloat16>>&, teacher<cpu::backend<bfloat16>>&,
                                  data::corpus const&, recipe const&, train::text_options const&,
                                  train::run_events, train::checkpoint_options);

extern template train::run_state train::load_student(model::grown_model<cpu::backend<float>>&,
                                                     teacher<cpu::backend<float>> const&,
                                                     std::filesystem::path const&);
extern template train::run_state train::load_student(model::grown_model<cpu::backend<bfloat16>>&,
                                                     teacher<cpu::backend<bfloat16>> const&,
                                                     std::filesystem::path const&);

extern template distillation::loss_sums train::cross_entropy_of(teacher<cpu::backend<float>>&,
                                                                data::corpus const&, index_t, std::size_t);
extern template distillation::loss_sums train::cross_entropy_of(teacher<cpu::backend<bfloat16>>&,
                                                                data::corpus const&, index_t, std::size_t);

extern template std::vector<std::int32_t> model::generate(teacher<cpu::backend<float>>&,
                                                          std::vector<std::int32_t>, index_t, sampling const&,
                                                          std::function<void(std::int32_t)> const&);
extern template std::vector<std::int32_t> model::generate(teacher<cpu::backend<bfloat16>>&,
                                                          std::vector<std::int32_t>, index_t, sampling const&,
                                                          std::function<void(std::int32_t)> const&);

}  // namespace accrete::inline v0
#endif
