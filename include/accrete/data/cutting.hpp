#pragma once
#include "accrete/core/view.hpp"

namespace accrete::inline v0::data {

/// How a text becomes documents of at most `max_length` tokens.
struct cutting {
  enum mode {
    first,   ///< one document: the first `max_length` tokens (the paper)
    windows  ///< as many documents as it takes; a rest of one token has no target and is dropped
  };
  mode how = first;
  index_t max_length = 2048;  ///< the default batch's capacity

  [[nodiscard]] char const* name() const { return how == first ? "first" : "windows"; }
};

}  // namespace accrete::inline v0::data
