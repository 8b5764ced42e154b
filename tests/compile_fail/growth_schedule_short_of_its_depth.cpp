// build error: \[accrete\] growth_schedule: S::plan must have phases .* and end at num_blocks
#include <string>

#include "accrete/growth/schedule.hpp"

struct unfinished {
  static constexpr auto plan = accrete::growth::plan<2>{3, 3, {{{.active_blocks = 1}, {.active_blocks = 2}}}};
  static std::string name() { return "unfinished"; }
};

accrete::check_growth_schedule<unfinished> check;
