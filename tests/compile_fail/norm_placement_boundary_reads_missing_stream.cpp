// build error: \[accrete\] norm_placement: .boundary. must give the head one value, made from the streams
#include "accrete/placement/norm_placement.hpp"

namespace ac = accrete;
using namespace accrete::wiring;

struct careless {
  static constexpr auto wiring = x + f(norm(x));
  static constexpr auto boundary = ac::placement::make_ends(x, norm(x + y));
};
template struct ac::check_norm_placement<careless>;
