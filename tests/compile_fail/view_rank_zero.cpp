// build error: \[accrete\] view: Rank must be 1 or more
#include "accrete/core/view.hpp"

accrete::view<float, 0> scalar;
