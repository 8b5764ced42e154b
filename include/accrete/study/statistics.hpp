#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "accrete/core/format.hpp"

namespace accrete::inline v0::study {

/// Mean over seeds with the half-width of its 95% interval (Student's t); no interval from one seed.
struct estimate {
  double mean = 0;
  double half_width = 0;
  std::size_t count = 0;
};

/// The 97.5% quantile of Student's t.
inline double t_quantile(std::size_t degrees_of_freedom) {
  constexpr std::array<double, 30> table{12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
                                         2.201,  2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
                                         2.080,  2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042};
  if (degrees_of_freedom == 0) return 0;
  if (degrees_of_freedom <= table.size()) return table[degrees_of_freedom - 1];
  double const n = double(degrees_of_freedom);
  return 1.95996 + 2.3723 / n + 2.823 / (n * n);  // its expansion around the normal law: exact to 1e-4 here
}

inline estimate estimate_of(std::vector<double> const& values) {
  estimate e;
  e.count = values.size();
  if (values.empty()) return e;
  for (double v : values) e.mean += v / double(values.size());
  if (values.size() < 2) return e;
  double squares = 0;
  for (double v : values) squares += (v - e.mean) * (v - e.mean);
  double const deviation = std::sqrt(squares / double(values.size() - 1));
  e.half_width = t_quantile(values.size() - 1) * deviation / std::sqrt(double(values.size()));
  return e;
}

/// One seed carries two decimals of a loss, no more; several carry what their interval says: its first two
/// digits.
inline int decimals_of(estimate const& e) {
  if (e.count < 2 || e.half_width <= 0) return 2;
  return std::clamp(1 - int(std::floor(std::log10(e.half_width))), 1, 4);
}
/// "2.76", "2.760 ± 0.012", "-" where there is nothing; what rounds to nought has no sign.
inline std::string text_of(estimate const& e, bool with_sign = false) {
  if (e.count == 0) return "-";
  int const d = decimals_of(e);
  double const unit = std::pow(10.0, d);
  double const mean = std::round(e.mean * unit) == 0 ? 0.0 : e.mean;
  auto text = with_sign && mean != 0 ? fmt::format("{:+.{}f}", mean, d) : fmt::format("{:.{}f}", mean, d);
  if (e.count > 1) text += fmt::format(" ± {:.{}f}", e.half_width, d);
  return text;
}

/// A number whose size matters more than its last digits: one decimal below 100, none above, powers past 1e5.
inline std::string rough_text(double v) {
  return v < 1e5 ? fmt::format("{:.{}f}", v, v < 99.95 ? 1 : 0) : fmt::format("{:.1e}", v);
}

}  // namespace accrete::inline v0::study
