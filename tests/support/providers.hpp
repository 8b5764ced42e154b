#pragma once
#include <tuple>

#include "accrete/cpu/backend.hpp"

namespace test {

/// Every provider of the CPU backend's products that this build has.
#if defined(ACCRETE_WITH_ONEDNN)
using providers = std::tuple<accrete::cpu::eigen_gemm, accrete::cpu::onednn_gemm>;
#else
using providers = std::tuple<accrete::cpu::eigen_gemm>;
#endif

}  // namespace test
