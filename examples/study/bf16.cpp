#include "run.hpp"

template int run_study<ac::cpu::backend<ac::bfloat16>>(settings);
