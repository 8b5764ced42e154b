// build error: \[accrete\] growth_schedule: S needs 'static constexpr auto plan', a growth::plan<phases>
#include <string>

#include "accrete/growth/schedule.hpp"

struct planless {
  static std::string name() { return "planless"; }
};

accrete::check_growth_schedule<planless> check;
