// build error: \[accrete\] growth_schedule: S needs 'static std::string name\(\)'
#include "accrete/growth/schedule.hpp"

struct nameless {
  static constexpr auto plan = accrete::growth::plan<1>{3, 3, {{{.active_blocks = 3}}}};
};

accrete::check_growth_schedule<nameless> check;
