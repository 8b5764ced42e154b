#pragma once
#include <cctype>
#include <filesystem>
#include <string>
#include <utility>

#include "accrete/core/error.hpp"
#include "accrete/io/atomic_file.hpp"
#include "accrete/train/log_lines.hpp"
#include "accrete/train/prepared_text.hpp"
#include "accrete/train/trainer.hpp"

namespace accrete::inline v0 {

/// A run that is over, with what is needed to write it down.
struct distilled : train::run_result {
  /// Writes `folder`/<student>_seed<n>.jsonl: one line for each update and evaluation. Whole or not there.
  void write(std::filesystem::path const& folder) const {
    std::error_code failed;
    std::filesystem::create_directories(folder, failed);
    std::string lines;
    for (auto const& r : steps) lines += train::to_json(r).dump() + "\n";
    for (auto const& r : evaluations) lines += train::to_json(r).dump() + "\n";
    std::string name = student;
    for (char& c : name)
      if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
    io::write_atomically(folder / (name + "_seed" + std::to_string(seed) + ".jsonl"), lines);
  }
};

/// Distils `s` from `t` on a text, along the student's whole schedule: splits off validation documents, asks
/// the teacher (once, if `options` names a folder), trains, evaluates at the end of each phase. With a folder
/// among `keep` the run is kept there while it goes, and the same call goes on with a run that ended early.
template <backend B>
distilled distill(model::grown_model<B>& s, teacher<B>& t, data::corpus const& text, recipe const& r,
                  train::text_options const& options = {}, train::run_events events = {},
                  train::checkpoint_options keep = {}) {
  r.check();
  index_t const updates = train::shard_updates(s.schedule(), r);
  train::prepared_text<B> const prepared(t, text, r, updates, options);
  train::trainer<B> run(s, t, prepared.for_updates(updates, r.seed), r, std::move(events), std::move(keep));
  return {run.run()};
}

}  // namespace accrete::inline v0
