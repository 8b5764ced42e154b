// build error: \[accrete\] growth_schedule: S needs 'static constexpr auto plan', a growth::plan<phases>
#include "accrete/model/student.hpp"
#include "accrete/placement/pre.hpp"
#include "accrete/reference/backend.hpp"

struct no_schedule {};

using student = accrete::student<accrete::placement::pre, no_schedule, accrete::reference::backend<double>>;
static_assert(sizeof(student) > 0);
