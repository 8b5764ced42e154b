#pragma once
#include <string>

#include "accrete/core/config.hpp"
#include "accrete/core/format.hpp"
#include "accrete/growth/schedule.hpp"
#include "accrete/model/fingerprint.hpp"

namespace accrete::inline v0::model {

ACCRETE_INLINE std::string detail::number_text(double value) {
  return fmt::format("{}", value);
}

ACCRETE_INLINE std::string fingerprint(growth::plan_view plan) {
  std::string text = fmt::format("{} x {}, text {}:", plan.num_blocks, plan.layers_per_block, int(plan.data));
  for (auto const& p : plan.phases)
    text += fmt::format(" ({} {} {} {} {} {})", p.length, p.active_blocks, int(p.what), int(p.optimizer),
                        int(p.rate), int(p.data));
  return text;
}

}  // namespace accrete::inline v0::model
