#pragma once
#include <algorithm>
#include <cstddef>

#include "accrete/data/corpus.hpp"
#include "accrete/data/document_order.hpp"
#include "accrete/distill/vocabulary_head.hpp"
#include "accrete/model/teacher.hpp"

namespace accrete::inline v0::train {

/// Cross-entropy of a model over every target token of a corpus, in batches of whole documents of at most
/// `capacity` tokens: sums, so that the mean does not depend on how the documents were batched.
template <backend B>
distillation::loss_sums cross_entropy_of(teacher<B>& t, data::corpus const& text, index_t capacity,
                                         std::size_t logits_bytes = std::size_t(128) << 20) {
  for (index_t d = 0; d < text.num_documents(); ++d) capacity = (std::max)(capacity, text.length(d));
  auto memory = t.make_workspace(capacity);
  auto const vocabulary = t.config().vocab_size;
  distillation::vocabulary_head<B> head(
      vocabulary, distillation::slice_lengths::within<typename B::logit>(logits_bytes, vocabulary, capacity));
  data::ragged_batch batch;
  distillation::loss_sums sums;
  data::document_iterator documents(text, data::whole_shard(text, seed{0}), seed{0});
  do {
    documents.next_batch(batch, capacity);
    data::check_ids(batch, vocabulary);
    auto const views = model::views_of(batch);
    sums += head.cross_entropy_of(t.context(), t.forward(views, memory), t.head()->view(), views.targets);
  } while (!documents.at_end_of_epoch());
  return sums;
}

}  // namespace accrete::inline v0::train
