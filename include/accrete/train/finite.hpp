#pragma once
#include <cmath>
#include <string>

#include "accrete/core/error.hpp"

namespace accrete::inline v0::train {

/// Throws numeric_error that begins with `where` and names the first weight with a number that is not finite.
template <class Model>
void require_finite_weights(Model& m, std::string const& where) {
  m.parameters([&](auto& p) {
    if (!std::isfinite(sum_of_squares(m.context(), p.value.view().flat())))
      throw numeric_error(where, "a weight of " + p.name() + " that is not finite", "finite numbers",
                          "lower the learning rate");
  });
}

}  // namespace accrete::inline v0::train
