#pragma once
#include <filesystem>
#include <utility>

#include "accrete/train/prepared_text.hpp"
#include "accrete/train/trainer.hpp"

namespace accrete::inline v0 {

/// A run that is over, with what is needed to write it down.
struct distilled : train::run_result {
  /// Writes `folder`/<student>_seed<n>.jsonl: one line for each update and evaluation. Whole or not there.
  void write(std::filesystem::path const& folder) const;
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

#if !defined(ACCRETE_COMPILED)
#include "accrete/train/detail/distill_body.hpp"
#endif
