// build error: \[accrete\] norm_placement: streams\(\.\.\.\) and by_depth<\.\.\.>\(\.\.\.\) stand at the root
// of an equation only
#include "accrete/placement/norm_placement.hpp"

namespace ac = accrete;
using namespace accrete::wiring;

struct lowest {
  static constexpr char const* name = "layer 0";
  static constexpr bool at(site s) { return s.layer == 0; }
};
struct careless {
  static constexpr auto wiring = x + by_depth<lowest>(f(x), f(norm(x)));
  static constexpr auto boundary = ac::placement::boundary::final_norm;
};
template struct ac::check_norm_placement<careless>;
