// build error: \[accrete\] layer::decoder: Mlp must be layer::swiglu
#include "accrete/model/layer.hpp"

using layer = accrete::layer::decoder<accrete::layer::grouped_query<>, accrete::layer::rotary::half_split>;
static_assert(sizeof(layer) > 0);
