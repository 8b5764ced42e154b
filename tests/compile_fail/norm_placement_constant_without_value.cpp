// build error: \[accrete\] norm_placement: constant<C> needs a struct C with .static double at
#include "accrete/placement/norm_placement.hpp"

namespace ac = accrete;
using namespace accrete::wiring;

struct half {
  static constexpr char const* name = "1/2";
};
struct careless {
  static constexpr auto wiring = x + constant<half>{} * f(norm(x));
  static constexpr auto boundary = ac::placement::boundary::final_norm;
};
template struct ac::check_norm_placement<careless>;
