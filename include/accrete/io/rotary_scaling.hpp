#pragma once
#include <cmath>
#include <cstddef>
#include <numbers>
#include <string>
#include <vector>

#include "accrete/core/error.hpp"
#include "accrete/core/view.hpp"

namespace accrete::inline v0::io {

/// How a model's rotary frequencies come from theta^(-2i / head_dim): as they are, or stretched as Llama 3.1
/// does to reach past the length it was trained at.
enum class rotary_kind { plain, llama3 };

/// Names follow Hugging Face's `rope_scaling`. Waves shorter than original / high_freq_factor positions stay,
/// waves longer than original / low_freq_factor turn `factor` times slower, those between are blended.
struct rotary_scaling {
  rotary_kind kind = rotary_kind::plain;
  double factor = 1;
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  index_t original_max_position_embeddings = 8192;

  friend bool operator==(rotary_scaling const& a, rotary_scaling const& b) {
    if (a.kind != b.kind) return false;
    return a.kind == rotary_kind::plain ||
           (a.factor == b.factor && a.low_freq_factor == b.low_freq_factor &&
            a.high_freq_factor == b.high_freq_factor &&
            a.original_max_position_embeddings == b.original_max_position_embeddings);
  }
};

[[nodiscard]] inline std::string text_of(rotary_scaling const& s) {
  if (s.kind == rotary_kind::plain) return "plain";
  auto const number = [](double v) {
    std::string text = std::to_string(v);
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
    return text;
  };
  return "llama3, factor " + number(s.factor) + " (" + number(s.low_freq_factor) + " to " +
         number(s.high_freq_factor) + " of " + std::to_string(s.original_max_position_embeddings) + ")";
}

/// Throws io_error unless the numbers make sense together.
inline void require_sound(rotary_scaling const& s, std::string const& where) {
  if (s.kind == rotary_kind::plain) return;
  if (!(s.factor >= 1 && s.factor < 1e6))
    throw io_error(where + ": factor", std::to_string(s.factor), "1 or more");
  if (!(s.low_freq_factor > 0 && s.low_freq_factor < s.high_freq_factor && s.high_freq_factor < 1e6))
    throw io_error(where,
                   "low_freq_factor " + std::to_string(s.low_freq_factor) + " and high_freq_factor " +
                       std::to_string(s.high_freq_factor),
                   "two positive numbers, the first below the second");
  if (s.original_max_position_embeddings < 1 || s.original_max_position_embeddings > (index_t(1) << 30))
    throw io_error(where + ": original_max_position_embeddings",
                   std::to_string(s.original_max_position_embeddings), "1 to 2^30");
}

/// Radians per position of each pair (i, i + head_dim / 2), in double. // [head_dim / 2]
[[nodiscard]] inline std::vector<double> rotary_frequencies(index_t head_dim, double theta,
                                                            rotary_scaling const& s = {}) {
  std::vector<double> frequencies(std::size_t(head_dim / 2));
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    double const plain = std::pow(theta, -2.0 * double(i) / double(head_dim));
    frequencies[i] = plain;
    if (s.kind == rotary_kind::plain) continue;
    // Turns within the original length: above high_freq_factor all of the plain frequency stays, below
    // low_freq_factor none.
    double const turns = double(s.original_max_position_embeddings) * plain / (2.0 * std::numbers::pi);
    double const share = (turns - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor);
    double const kept = share < 0 ? 0 : share > 1 ? 1 : share;
    frequencies[i] = plain * (kept + (1.0 - kept) / s.factor);
  }
  return frequencies;
}

}  // namespace accrete::inline v0::io
