#include "run.hpp"

template int run_study<ac::cpu::backend<float>>(settings);
