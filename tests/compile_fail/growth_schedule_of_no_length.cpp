// build error: \[accrete\] growth_schedule: S::plan must have phases of positive length whose
#include <string>

#include "accrete/growth/schedule.hpp"

struct instant {
  static constexpr auto plan =
      accrete::growth::plan<2>{2, 3, {{{.active_blocks = 1}, {.length = 0.0, .active_blocks = 2}}}};
  static std::string name() { return "instant"; }
};

accrete::check_growth_schedule<instant> check;
