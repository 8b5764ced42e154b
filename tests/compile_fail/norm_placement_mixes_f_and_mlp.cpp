// build error: \[accrete\] norm_placement: the equation calls f and also attn or mlp
#include "accrete/placement/norm_placement.hpp"

namespace ac = accrete;
using namespace accrete::wiring;

struct careless {
  static constexpr auto wiring = x + f(norm(x)) + mlp(x);
  static constexpr auto boundary = ac::placement::boundary::final_norm;
};
template struct ac::check_norm_placement<careless>;
