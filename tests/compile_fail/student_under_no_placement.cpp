// build error: \[accrete\] norm_placement: P needs 'static constexpr auto wiring = <equation>'
#include "accrete/growth/joint.hpp"
#include "accrete/model/student.hpp"
#include "accrete/reference/backend.hpp"

struct no_placement {};

using student =
    accrete::student<no_placement, accrete::growth::joint<3, 3>, accrete::reference::backend<double>>;
static_assert(sizeof(student) > 0);
