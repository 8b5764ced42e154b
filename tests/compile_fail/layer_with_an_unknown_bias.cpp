// build error: \[accrete\] layer::grouped_query: Bias must be one of layer::bias::\{none, qkv, qkvo\}
#include "accrete/model/layer.hpp"

using attention = accrete::layer::grouped_query<accrete::layer::qk_norm::none,
                                                accrete::layer::rotary::half_split, accrete::layer::swiglu>;
static_assert(sizeof(attention) > 0);
