// build error: \[accrete\] norm_placement: .norm_names. must name each norm of a layer once
#include <array>

#include "accrete/placement/norm_placement.hpp"

namespace ac = accrete;
using namespace accrete::wiring;

struct careless {
  static constexpr auto wiring = x + f(norm(x));
  static constexpr auto boundary = ac::placement::boundary::final_norm;
  static constexpr std::array norm_names{"input_layernorm"};
};
template struct ac::check_norm_placement<careless>;
