// build error: \[accrete\] student: Layer must be layer::like_teacher, layer::decoder<...>, or a struct with
#include "accrete/growth/joint.hpp"
#include "accrete/model/student.hpp"
#include "accrete/placement/pre.hpp"
#include "accrete/reference/backend.hpp"

using student = accrete::student<accrete::placement::pre, accrete::growth::joint<3, 3>,
                                 accrete::reference::backend<double>, accrete::layer::swiglu>;
static_assert(sizeof(student) > 0);
