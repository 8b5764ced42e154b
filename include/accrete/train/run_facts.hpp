#pragma once
#include <string>
#include <utility>
#include <vector>

#include "accrete/core/config.hpp"
#include "accrete/data/corpus.hpp"
#include "accrete/data/shard.hpp"
#include "accrete/model/fingerprint.hpp"
#include "accrete/model/grown_model.hpp"
#include "accrete/model/layer.hpp"
#include "accrete/train/recipe.hpp"

namespace accrete::inline v0::train {

/// Something that a run's numbers follow from, as text.
struct run_fact {
  /// What a resume does where it differs: never goes on, goes on where the user allows it, or just says so.
  enum class change { refused, allowed, noted };
  std::string key, value;
  change when_changed = change::refused;
};
using run_facts = std::vector<run_fact>;

/// What the recipe says. A run may go on with another learning rate, say, if its user wants that; with another
/// number of steps or another batch it would be neither run.
run_facts facts_of(recipe const& r);

/// Tokens of a text and which of its documents a run goes through, in order.
std::string text_identity(data::corpus const& text, data::shard const& documents);

/// What a decoder layer has, and how it tells positions apart.
std::string layer_text(layer::features const& f, double rope_theta);

/// What a student is, whatever it is trained on.
template <backend B>
run_facts facts_of(model::grown_model<B>& s, teacher<B> const& t) {
  using enum run_fact::change;
  auto const& shape = s.stack().shape();
  return {{"student", s.name(), allowed},
          {"placement", s.placement_fingerprint(), refused},
          {"schedule", model::fingerprint(s.schedule()), refused},
          {"layer", layer_text(shape.features, shape.rope_theta), refused},
          {"dtype", std::to_string(8 * sizeof(typename B::scalar)) + " bits", refused},
          {"teacher", t.identity(), refused}};
}

/// Everything a run of `s` follows from.
template <backend B, class Data>
run_facts facts_of(model::grown_model<B>& s, teacher<B> const& t, Data const& d, data::shard const& held_out,
                   recipe const& r) {
  using enum run_fact::change;
  auto all = facts_of(s, t);
  all.insert(all.end(),
             {{"text", text_identity(*d.training, d.shard), refused},
              {"validation_text", text_identity(*d.validation, held_out), refused},
              {"library", std::to_string(ACCRETE_VERSION_MAJOR) + "." + std::to_string(ACCRETE_VERSION_MINOR), allowed},
              {"backend", B::name(), allowed},
              {"teacher_states", d.training_states->is_live() ? "live" : "cached", noted}});
  if constexpr (requires { s.context().threads(); })
    all.push_back({"threads", std::to_string(s.context().threads()), noted});
  auto const settings = facts_of(r);
  all.insert(all.end(), settings.begin(), settings.end());
  return all;
}

/// Throws config_error where `allow` names no fact, or one that no run goes on without.
void check_allowed(run_facts const& now, std::vector<std::string> const& allow);

/// Holds what a run is now against what it was. Throws config_error in one line that begins with `where` and
/// names each difference that is not among `allow`; returns one line on those that are let through, or empty.
std::string compare(run_facts const& now, std::vector<std::pair<std::string, std::string>> const& before,
                    std::vector<std::string> const& allow, std::string const& where);

}  // namespace accrete::inline v0::train

#if !defined(ACCRETE_COMPILED)
#include "accrete/train/detail/run_facts_body.hpp"
#endif
