#pragma once
#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <utility>

#include "accrete/data/corpus.hpp"
#include "accrete/data/shard.hpp"
#include "accrete/data/split_validation.hpp"
#include "accrete/distill/teacher_cache.hpp"
#include "accrete/distill/teacher_states.hpp"
#include "accrete/train/recipe.hpp"
#include "accrete/train/run_data.hpp"

namespace accrete::inline v0::train {

struct text_options {
  std::filesystem::path cache_folder{};  ///< for the teacher's states; empty: it runs inside each update
  index_t validation_documents = 64;
  /// The held-out documents do not depend on the run's seed, so that all seeds are scored on the same text.
  seed split_seed{0};
  std::function<void(index_t done, index_t all)> on_teacher{};  ///< tokens the teacher has answered; may throw
};

/// The text of runs that share sizes, whatever their seed: split once, the teacher asked once. The teacher must
/// outlive it.
template <backend B>
class prepared_text {
 public:
  /// `updates`: of the longest run. Throws config_error when the corpus is too small for it.
  prepared_text(teacher<B>& t, data::corpus const& all, recipe const& r, index_t updates, text_options const& o)
      : recipe_(r.checked()),
        split_(std::make_unique<data::split_corpus>(
            data::split_validation(all, o.validation_documents, o.split_seed))),
        pool_(split_->training, o.split_seed, r.steps, updates, r.batch_tokens),
        validation_(data::whole_shard(split_->validation, o.split_seed)) {
    (void)for_updates(updates, r.seed);  // a text that is too small is told before the teacher runs
    index_t const capacity = r.micro_capacity();
    training_states_ = states(t, split_->training, pool_.documents(), capacity, o);
    validation_states_ = states(t, split_->validation, validation_, capacity, o);
  }

  /// For a run of so many distinct updates; a longer run starts with the batches of a shorter one. Throws
  /// config_error when this seed's batches need more text than there is.
  [[nodiscard]] run_data<B> for_updates(index_t updates, seed s) const {
    return {&split_->training, data::shard_for(split_->training, pool_.order(s), updates, recipe_.batch_tokens),
            training_states_.get(), &split_->validation, validation_states_.get()};
  }
  [[nodiscard]] data::split_corpus const& split() const { return *split_; }
  [[nodiscard]] bool teacher_reused() const {
    auto const* cache = training_states_->cache();
    return cache != nullptr && cache->was_reused();
  }

 private:
  static std::unique_ptr<distillation::teacher_states<B>> states(teacher<B>& t, data::corpus const& text,
                                                                 data::shard const& documents, index_t capacity,
                                                                 text_options const& o) {
    if (o.cache_folder.empty()) return std::make_unique<distillation::teacher_states<B>>(t, capacity);
    auto cache = distillation::teacher_cache<B>::open_or_build(o.cache_folder, t, text, documents, capacity,
                                                               [&](index_t done, index_t of) {
                                                                 if (o.on_teacher) o.on_teacher(done, of);
                                                               });
    return std::make_unique<distillation::teacher_states<B>>(std::move(cache), capacity);
  }

  recipe recipe_;
  std::unique_ptr<data::split_corpus> split_;  // at one address: run_data points into it
  data::document_pool pool_;
  data::shard validation_;
  std::unique_ptr<distillation::teacher_states<B>> training_states_, validation_states_;
};

}  // namespace accrete::inline v0::train
