#pragma once
#include "accrete/core/rng.hpp"
#include "accrete/core/view.hpp"
#include "accrete/data/corpus.hpp"

namespace accrete::inline v0::data {

/// A corpus in two: what is trained on and what is held out.
struct split_corpus {
  corpus training, validation;
};

/// Holds out `num_documents` documents, drawn by whole texts, so that two windows of one text are never on both
/// sides; windows of the last text drawn that are not needed are on neither. A function of (corpus, seed) only.
/// Throws `config_error` when nothing would be left to train on.
split_corpus split_validation(corpus const& all, index_t num_documents, seed s);

}  // namespace accrete::inline v0::data

#if !defined(ACCRETE_COMPILED)
#include "accrete/data/detail/split_validation_body.hpp"
#endif
