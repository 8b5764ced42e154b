// build error: \[accrete\] growth_schedule: S::plan must have phases of positive length whose
#include <string>

#include "accrete/growth/schedule.hpp"

struct shrinking {
  static constexpr auto plan =
      accrete::growth::plan<3>{3, 3, {{{.active_blocks = 2}, {.active_blocks = 1}, {.active_blocks = 3}}}};
  static std::string name() { return "shrinking"; }
};

accrete::check_growth_schedule<shrinking> check;
