#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

#include "accrete/core/error.hpp"
#include "accrete/model/grown_model.hpp"
#include "accrete/train/checkpoint_file.hpp"
#include "accrete/train/checkpoint_tensors.hpp"
#include "accrete/train/run_facts.hpp"
#include "accrete/train/run_state.hpp"

namespace accrete::inline v0::train {

/// Makes a fresh student what a checkpoint says: its blocks are appended phase by phase, then values, moments
/// and update counts are read. Throws config_error or io_error where it is of another student.
template <class Model>
void restore_student(Model& m, checkpoint_file const& file) {
  int const phase = file.state().phase;
  if (phase >= m.schedule().num_phases())
    throw config_error(file.where(), "phase " + std::to_string(phase),
                       "one of the " + std::to_string(m.schedule().num_phases()) + " of the plan");
  for (int p = 1; p <= phase; ++p) m.begin_phase(p);
  file.read_parameters(parameters_of(m));
  m.parameters([&](auto& p) { p.refresh(m.context()); });
}

/// For whoever wants a trained student and no more training of it: a fresh one of the checkpoint's type under
/// the same teacher becomes it. Returns where its run stood. Throws config_error in one line that names what is
/// another student's or teacher's.
template <backend B>
run_state load_student(model::grown_model<B>& s, teacher<B> const& t, std::filesystem::path const& path) {
  std::int64_t updates = s.phase();
  s.parameters([&](auto& p) { updates += p.updates; });
  checkpoint_file const file(path);
  if (updates != 0) throw config_error(file.where(), "a student that has been trained already", "a fresh one");
  (void)compare(facts_of(s, t), file.facts(), {"student"}, file.where());
  restore_student(s, file);
  return file.state();
}

}  // namespace accrete::inline v0::train
