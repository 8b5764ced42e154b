#pragma once
#include <algorithm>
#include <string>

#include "accrete/core/error.hpp"
#include "accrete/core/view.hpp"
#include "accrete/data/corpus.hpp"
#include "accrete/data/shard.hpp"
#include "accrete/distill/teacher_states.hpp"
#include "accrete/model/grown_model.hpp"
#include "accrete/model/teacher.hpp"
#include "accrete/train/recipe.hpp"

namespace accrete::inline v0::train {

/// The text of a run and the teacher's answers on it.
template <backend B>
struct run_data {
  data::corpus const* training = nullptr;
  data::shard shard;  ///< documents of `training`, in the order of the first pass
  distillation::teacher_states<B>* training_states = nullptr;    ///< on all of `shard`
  data::corpus const* validation = nullptr;                      ///< the same documents at every evaluation
  distillation::teacher_states<B>* validation_states = nullptr;  ///< on all of `validation`
};

/// A student that was trained before would go through the plan with a later phase's blocks and moments: throws
/// config_error for one.
template <backend B>
void require_fresh(model::grown_model<B>& s) {
  bool fresh = s.phase() == 0 && s.active_layers() == s.schedule().active_layers(0);
  s.parameters([&](auto& p) { fresh = fresh && p.updates == 0; });
  if (!fresh)
    throw config_error("trainer", "a student that has been trained already", "a fresh one",
                       "make another student for another run");
}

/// What would stop a run hours later, at its first evaluation even, is refused before it begins: throws
/// config_error for a document that is longer than what is in memory at once or than the teacher's positions.
/// `which`: the text's name in the message.
template <backend B>
void require_fit(data::corpus const& text, data::shard const& documents, char const* which, recipe const& r,
                 teacher<B> const& t) {
  index_t const capacity = r.micro_capacity();
  index_t const longest = (std::min)(capacity, t.max_positions());
  for (index_t d : documents)
    if (text.length(d) > longest)
      throw config_error(
          "trainer",
          std::string(which) + " document " + std::to_string(d) + " of " + std::to_string(text.length(d)) +
              " tokens",
          "at most " + std::to_string(longest) +
              (longest == capacity ? ", what is in memory at once" : ", the teacher's positions"),
          longest == capacity ? "cut documents shorter, or raise batch_tokens and micro_tokens"
                              : "cut documents shorter");
}

}  // namespace accrete::inline v0::train
