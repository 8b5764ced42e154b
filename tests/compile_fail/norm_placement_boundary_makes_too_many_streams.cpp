// build error: \[accrete\] norm_placement: .boundary. must make the streams from the embedding x
#include "accrete/placement/norm_placement.hpp"

namespace ac = accrete;
using namespace accrete::wiring;

struct careless {
  static constexpr auto wiring = x + f(norm(x));
  static constexpr auto boundary = ac::placement::make_ends(streams(x, x), norm(x));
};
template struct ac::check_norm_placement<careless>;
