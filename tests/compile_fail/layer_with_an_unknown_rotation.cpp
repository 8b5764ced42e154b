// build error: \[accrete\] layer::grouped_query: Rotary must be one of layer::rotary::\{half_split, llama3\},
// or a
#include "accrete/model/layer.hpp"

using attention = accrete::layer::grouped_query<accrete::layer::qk_norm::none, accrete::layer::swiglu>;
static_assert(sizeof(attention) > 0);
