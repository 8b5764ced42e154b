// build error: \[accrete\] norm_placement: P needs .static constexpr auto boundary., one of
// placement::boundary::\{none,
#include "accrete/placement/norm_placement.hpp"

namespace ac = accrete;
using namespace accrete::wiring;

struct careless {
  static constexpr auto wiring = x + f(norm(x));
};
template struct ac::check_norm_placement<careless>;
