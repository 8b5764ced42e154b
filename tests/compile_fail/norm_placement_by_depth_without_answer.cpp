// build error: \[accrete\] norm_placement: by_depth<When> needs a struct When
#include "accrete/placement/norm_placement.hpp"

namespace ac = accrete;
using namespace accrete::wiring;

struct lowest {};
struct careless {
  static constexpr auto wiring = by_depth<lowest>(x + f(x), x + f(norm(x)));
  static constexpr auto boundary = ac::placement::boundary::final_norm;
};
template struct ac::check_norm_placement<careless>;
