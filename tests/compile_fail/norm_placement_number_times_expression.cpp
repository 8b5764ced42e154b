// build error: \[accrete\] norm_placement: a number times an expression: only types are kept\. Name it
#include "accrete/placement/norm_placement.hpp"

namespace ac = accrete;
using namespace accrete::wiring;

struct careless {
  static constexpr auto wiring = x + 0.5 * f(norm(x));
  static constexpr auto boundary = ac::placement::boundary::final_norm;
};
template struct ac::check_norm_placement<careless>;
