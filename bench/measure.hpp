#pragma once
// What the programs of this folder measure with.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "accrete/core/error.hpp"
#include "accrete/core/view.hpp"
#include "accrete/cpu/gemm_provider.hpp"
#include "accrete/tensor/tensor.hpp"

namespace measure {

/// False, after saying why, where assertions would be timed as well.
inline bool may_time(char const* program) {
#if defined(NDEBUG) && !defined(_GLIBCXX_ASSERTIONS)
  (void)program;
  return true;
#else
  std::fprintf(stderr, "%s: got a build with assertions, expected one with NDEBUG (preset 'release')\n",
               program);
  return false;
#endif
}

template <class Work>
double seconds_of(Work&& work) {
  auto const start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Of a sorted copy the middle, or the mean of the two in the middle; 0 of none.
inline double median(std::vector<double> numbers) {
  if (numbers.empty()) return 0;
  std::sort(numbers.begin(), numbers.end());
  std::size_t const n = numbers.size();
  return (numbers[(n - 1) / 2] + numbers[n / 2]) / 2;
}

/// Operations a second of the provider's own product at 2048 x 768 x 2048: what a step is held against.
template <class Backend>
double gemm_rate(Backend const& ctx) {
  using scalar = typename Backend::scalar;
  accrete::tensor<scalar, 2> a({2048, 768}), b({768, 2048}), c({2048, 2048});
  std::fill(a.data(), a.data() + a.size(), scalar(0.5F));
  std::fill(b.data(), b.data() + b.size(), scalar(0.25F));
  auto const multiply = [&] {
    using accrete::cpu::operand;
    Backend::gemm::template multiply<scalar>(ctx.threads(), operand::as_is, operand::as_is,
                                             accrete::store::replace, std::as_const(a).view(),
                                             std::as_const(b).view(), c.view());
  };
  multiply();
  std::vector<double> seconds(9);
  for (double& s : seconds) s = seconds_of(multiply);
  return 2.0 * 2048 * 768 * 2048 / median(seconds);
}

/// Bytes that a line of Linux's /proc/self/status gives. Throws io_error.
inline std::int64_t process_bytes(std::string_view line) {
  std::ifstream status("/proc/self/status");
  for (std::string name; status >> name; status.ignore(1 << 10, '\n'))
    if (std::int64_t kib = 0; name == std::string(line) + ":" && status >> kib) return kib * 1024;
  throw accrete::io_error("measure::process_bytes", "no " + std::string(line), "it in /proc/self/status");
}
/// The largest amount of memory at one time that is not pages of files, such as code.
inline std::int64_t peak_bytes() {
  return process_bytes("VmHWM") - process_bytes("RssFile");
}
/// From here on peaks are of what comes; without the right to, they stay those of the whole process.
inline void forget_peak() {
  std::ofstream("/proc/self/clear_refs") << "5";
}

}  // namespace measure
