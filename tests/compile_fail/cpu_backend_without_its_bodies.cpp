// build error: \[accrete\] cpu::backend: the compiled part has the formats 'float' and 'bfloat16' with the default Gemm
#define ACCRETE_COMPILED
#include "accrete/cpu/backend.hpp"

accrete::cpu::backend<double> const context;
