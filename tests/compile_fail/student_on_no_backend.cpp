// build error: \[accrete\] student: Backend must be a backend such as cpu::backend<float>
#include "accrete/growth/joint.hpp"
#include "accrete/model/student.hpp"
#include "accrete/placement/pre.hpp"

using student = accrete::student<accrete::placement::pre, accrete::growth::joint<3, 3>, double>;
static_assert(sizeof(student) > 0);
