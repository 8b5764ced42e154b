#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <limits>
#include <string>
#include <utility>

#include "accrete/core/error.hpp"
#include "accrete/io/leftovers.hpp"
#include "accrete/train/checkpoint_folder.hpp"
#include "accrete/train/checkpoint_tensors.hpp"
#include "accrete/train/finite.hpp"
#include "accrete/train/load_student.hpp"
#include "accrete/train/run_facts.hpp"
#include "accrete/train/run_state.hpp"
#include "accrete/train/write_checkpoint.hpp"

namespace accrete::inline v0::train {

/// Keeps one run on disk: writes where it stands when that is due, and puts a fresh student there again.
template <class Model>
class run_keeper {
 public:
  using note_function = std::function<void(std::string const&)>;

  /// Throws io_error for a folder that cannot be written, that another process has, or without room for the
  /// grown student.
  run_keeper(Model& m, run_facts facts, checkpoint_options o, note_function note)
      : model_(m), facts_(std::move(facts)), folder_(std::move(o)), note_(std::move(note)) {
    check_allowed(facts_, folder_.options().allow);
    try {
      folder_.require_room(bytes_when_grown());
    } catch (io_error const& e) {
      if (folder_.options().keep_final) throw;  // it would end without
      tell(e.what());
    }
    if (!folder_.is_locked())
      tell(folder_.where() + ": no locks there; see that no other process writes to it");
  }

  /// Makes a fresh student and `s` what the newest whole checkpoint says, and returns its path. No begin_phase
  /// may follow for the phase it is in. Empty where there is none. Throws config_error for a checkpoint of
  /// another run.
  std::filesystem::path restore(run_state& s) {
    auto const file = folder_.newest([this](std::string const& text) { tell(text); });
    folder_.start_interval();
    if (!file) return {};
    auto const changed = compare(facts_, file->facts(), folder_.options().allow, file->where());
    restore_student(model_, *file);
    s = file->state();
    written_ = s.step();
    tell("going on after step " + std::to_string(s.step()) + ", from " + file->path().string() +
         (changed.empty() ? "" : ", with " + changed));
    return file->path();
  }

  /// After an update: `leave` and `last` are reasons to keep it. On a disk that fails a run goes on while it
  /// can: what is lost by going on is nothing, by ending it the work since the last checkpoint. Throws io_error
  /// where nothing would follow.
  void keep_where_due(run_state const& s, bool leave, bool last) {
    bool const needed = leave || (last && folder_.options().keep_final);
    if (!needed && !folder_.is_due(s.step())) return;
    try {
      keep(s);
    } catch (io_error const& e) {
      if (needed) throw;
      folder_.start_interval();
      tell(std::string("no checkpoint after step ") + std::to_string(s.step()) + ": " + e.what());
    }
  }

  /// Where a run is left that has been kept at this place or not.
  void keep_on_leaving(run_state const& s) {
    if (written_ != s.step()) keep(s);
  }

  /// After an evaluation, of which there may have been better ones.
  void keep_best(run_state const& s) {
    if (!folder_.options().keep_best) return;
    auto const& all = s.result.evaluations;
    auto const full = model_.schedule().final_depth();
    double best = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i + 1 < all.size(); ++i)
      if (all[i].active_layers == full) best = (std::min)(best, all[i].ce);
    if (all.empty() || all.back().active_layers != full || !(all.back().ce < best)) return;
    try {
      if (written_ == s.step() && io::link_atomically(folder_.path_of(s.step()), folder_.best_path())) return;
      require_finite_weights(model_, "step " + std::to_string(s.step()));
      write_checkpoint(folder_.best_path(), facts_, s, parameters_of(model_));
    } catch (io_error const& e) {
      tell(std::string("the best student so far is not kept: ") + e.what());
    }
  }

  /// While an error is on its way out: what can be saved is, and the error stays the one that is told.
  void keep_after_error(run_state const& s) noexcept {
    try {
      if (s.step() == 0 || written_ == s.step() || s.phase != model_.phase()) return;
      keep(s);
      tell("kept where it stood after step " + std::to_string(s.step()));
    } catch (std::exception const& e) {
      tell_quietly(std::string("could not be kept after step ") + std::to_string(s.step()) + ": " + e.what());
    }
  }

 private:
  void keep(run_state const& s) {
    require_finite_weights(model_, "checkpoint after step " + std::to_string(s.step()));
    write_checkpoint(folder_.path_of(s.step()), facts_, s, parameters_of(model_));
    written_ = s.step();
    folder_.prune(s.step());
    folder_.start_interval();
  }
  void tell(std::string const& text) const {
    if (note_) note_(text);
  }
  void tell_quietly(std::string const& text) const noexcept {
    try {
      tell(text);
    } catch (...) {  // the listener is what failed
    }
  }

  /// Of a checkpoint at full depth: value and two moments of all weights.
  [[nodiscard]] std::uintmax_t bytes_when_grown() {
    std::uintmax_t now = 0, layer = 0;
    model_.parameters([&](auto& p) { now += 3 * p.value.bytes(); });
    model_.stack().layers().back().parameters([&](auto& p) { layer += 3 * p.value.bytes(); });
    return now + layer * std::uintmax_t(model_.schedule().final_depth() - model_.active_layers());
  }

  Model& model_;
  run_facts facts_;
  checkpoint_folder folder_;
  note_function note_;
  index_t written_ = -1;  // the step whose checkpoint is on disk, as a file of its own
};

}  // namespace accrete::inline v0::train
