#pragma once
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "accrete/backend/types.hpp"
#include "accrete/core/rng.hpp"
#include "accrete/core/view.hpp"
#include "accrete/wiring/expression.hpp"

/// Kernels for wiring::execution over plain vectors, written apart from any backend. They are strict: they
/// count every promise of the executor that is broken.
namespace test {

using numbers = std::vector<double>;
using buffer = numbers*;  // the executor passes it around and never looks inside

inline double const poison = std::numeric_limits<double>::quiet_NaN();

inline numbers random_numbers(std::size_t n, std::string_view name, double deviation = 1, double mean = 0) {
  accrete::random_stream const stream(accrete::seed{11}, name);
  numbers v(n);
  for (std::size_t i = 0; i < n; ++i) v[i] = mean + deviation * stream.normal(i);
  return v;
}

/// Equal to the last bit; poison differs from everything.
inline bool same_bits(numbers const& a, numbers const& b) {
  bool const whole = std::none_of(a.begin(), a.end(), [](double v) { return std::isnan(v); });
  return whole && a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0;
}

/// What a sublayer remembers from its forward, as a real one would (q, k, v, ...).
struct toy_memory {
  numbers weight, gradient;  // [D, D]
  numbers input;             // [T, D], of the last forward
  int forward_calls = 0;
  int backward_calls = 0;
};

/// attn mixes rows causally, mlp works on each row; both end in tanh, so that nothing is linear and hides.
class toy_kernels {
 public:
  static constexpr int tokens = 5;
  static constexpr int width = 6;
  static constexpr std::size_t elements = std::size_t(tokens) * std::size_t(width);

  explicit toy_kernels(int num_gains) {
    attn.weight = random_numbers(std::size_t(width * width), "attn", 0.3);
    mlp.weight = random_numbers(std::size_t(width * width), "mlp", 0.5);
    for (int g = 0; g < num_gains; ++g)
      gains.push_back(random_numbers(std::size_t(width), "gain " + std::to_string(g), 0.2, 1.0));
    clear_gradients();
  }
  void clear_gradients() {
    attn.gradient.assign(attn.weight.size(), 0.0);
    mlp.gradient.assign(mlp.weight.size(), 0.0);
    gain_gradients.assign(gains.size(), numbers(std::size_t(width), 0.0));
  }

  void zero(buffer out) { out->assign(elements, 0.0); }
  void copy(buffer a, buffer out) {
    apart(a, out);
    *out = *a;
  }
  void add(buffer a, buffer b, buffer out) {
    apart(a, out);
    apart(b, out);
    for (std::size_t i = 0; i < elements; ++i) (*out)[i] = (*a)[i] + (*b)[i];
  }
  void scale(double c, buffer a, buffer out) {  // the one operation that is allowed in place
    for (std::size_t i = 0; i < elements; ++i) (*out)[i] = c * (*a)[i];
  }
  void accumulate(double c, buffer a, buffer out) {
    apart(a, out);
    for (std::size_t i = 0; i < elements; ++i) (*out)[i] += c * (*a)[i];
  }

  void norm(int gain, buffer a, buffer out, buffer row) {
    normalize(&gains.at(std::size_t(gain)), a, out, row);
  }
  void unit(buffer a, buffer out, buffer row) { normalize(nullptr, a, out, row); }
  void add_norm(buffer a, buffer b, buffer sum, int gain, buffer out, buffer row) {
    apart(a, out);
    apart(b, out);
    add(a, b, sum);
    norm(gain, sum, out, row);
    ++fused;
  }
  void norm_backward(int gain, buffer a, buffer row, buffer d, buffer da, accrete::store how) {
    normalize_backward(&gains.at(std::size_t(gain)), &gain_gradients.at(std::size_t(gain)), a, row, d, da, how);
  }
  void unit_backward(buffer a, buffer row, buffer d, buffer da, accrete::store how) {
    normalize_backward(nullptr, nullptr, a, row, d, da, how);
  }

  template <class Sublayer>
  void apply(buffer a, buffer out) {
    apart(a, out);
    toy_memory& m = memory_of<Sublayer>();
    m.input = *a;
    ++m.forward_calls;
    *out = activations<Sublayer>(*a);
  }
  void attention_again(buffer out) { *out = activations<accrete::wiring::attention>(attn.input); }
  template <class Sublayer>
  void apply_backward(buffer a, buffer d, buffer da, accrete::store how) {
    apart(a, da);
    apart(d, da);
    toy_memory& m = memory_of<Sublayer>();
    ++m.backward_calls;
    if (!same_bits(m.input, *a)) ++broken_promises;  // it never ran, or the input was rebuilt differently
    numbers const out = activations<Sublayer>(*a);
    if (how == accrete::store::replace) zero(da);
    for (int t = 0; t < tokens; ++t) {
      for (int j = 0; j < width; ++j) {
        double const z = (*d)[at(t, j)] * (1 - out[at(t, j)] * out[at(t, j)]);
        for (int s = first_source<Sublayer>(t); s <= t; ++s) {
          for (int k = 0; k < width; ++k) {
            m.gradient[at(k, j)] += z * (*a)[at(s, k)];
            (*da)[at(s, k)] += z * m.weight[at(k, j)];
          }
        }
      }
    }
  }

  toy_memory attn, mlp;
  std::vector<numbers> gains, gain_gradients;  // [D] each
  int fused = 0;
  int broken_promises = 0;  ///< an output on top of an operand, a backward without its forward

 private:
  static std::size_t at(int i, int j) { return std::size_t(i * width + j); }
  template <class Sublayer>
  static int first_source(int t) {
    return std::is_same_v<Sublayer, accrete::wiring::attention> ? 0 : t;
  }
  template <class Sublayer>
  toy_memory& memory_of() {
    return std::is_same_v<Sublayer, accrete::wiring::attention> ? attn : mlp;
  }
  void apart(buffer a, buffer out) { broken_promises += a == out; }

  template <class Sublayer>
  numbers activations(numbers const& a) {
    numbers const& w = memory_of<Sublayer>().weight;
    numbers out(elements);
    for (int t = 0; t < tokens; ++t) {
      for (int j = 0; j < width; ++j) {
        double z = 0;
        for (int s = first_source<Sublayer>(t); s <= t; ++s)
          for (int k = 0; k < width; ++k) z += a[at(s, k)] * w[at(k, j)];
        out[at(t, j)] = std::tanh(z);
      }
    }
    return out;
  }

  void normalize(numbers const* gain, buffer a, buffer out, buffer row) {
    apart(a, out);
    for (int t = 0; t < tokens; ++t) {
      double squares = 0;
      for (int j = 0; j < width; ++j) squares += (*a)[at(t, j)] * (*a)[at(t, j)];
      double const r = 1 / std::sqrt(squares / width + 1e-6);
      (*row)[std::size_t(t)] = r;
      for (int j = 0; j < width; ++j)
        (*out)[at(t, j)] = (gain ? (*gain)[std::size_t(j)] : 1.0) * (*a)[at(t, j)] * r;
    }
  }
  void normalize_backward(numbers const* gain, numbers* dgain, buffer a, buffer row, buffer d, buffer da,
                          accrete::store how) {
    apart(a, da);
    apart(d, da);
    if (how == accrete::store::replace) zero(da);
    for (int t = 0; t < tokens; ++t) {
      double const r = (*row)[std::size_t(t)];
      double mean = 0;
      for (int j = 0; j < width; ++j) {
        double const g = gain ? (*gain)[std::size_t(j)] : 1.0;
        mean += g * (*d)[at(t, j)] * (*a)[at(t, j)] * r / width;
        if (dgain) (*dgain)[std::size_t(j)] += (*d)[at(t, j)] * (*a)[at(t, j)] * r;
      }
      for (int j = 0; j < width; ++j) {
        double const g = gain ? (*gain)[std::size_t(j)] : 1.0;
        (*da)[at(t, j)] += r * (g * (*d)[at(t, j)] - (*a)[at(t, j)] * r * mean);
      }
    }
  }
};

}  // namespace test
