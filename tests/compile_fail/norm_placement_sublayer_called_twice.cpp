// build error: \[accrete\] norm_placement: a sublayer is called with two different arguments
#include "accrete/placement/norm_placement.hpp"

namespace ac = accrete;
using namespace accrete::wiring;

struct careless {
  static constexpr auto wiring = x + f(norm(x)) + f(x);
  static constexpr auto boundary = ac::placement::boundary::final_norm;
};
template struct ac::check_norm_placement<careless>;
