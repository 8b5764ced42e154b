// build error: \[accrete\] norm_placement: by_depth chooses between equations with different numbers of streams
#include "accrete/placement/norm_placement.hpp"

namespace ac = accrete;
using namespace accrete::wiring;

struct lowest {
  static constexpr char const* name = "layer 0";
  static constexpr bool at(site s) { return s.layer == 0; }
};
struct careless {
  static constexpr auto wiring = by_depth<lowest>(x + f(norm(x)), streams(norm(x + f(x)), y + f(x)));
  static constexpr auto boundary = ac::placement::boundary::final_norm;
};
template struct ac::check_norm_placement<careless>;
