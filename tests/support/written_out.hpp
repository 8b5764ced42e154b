#pragma once
#include <cmath>
#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "accrete/data/ragged_batch.hpp"
#include "accrete/io/model_config.hpp"
#include "accrete/model/parameter.hpp"

/// A model in plain loops, to hold the library's against.
namespace test {

struct rows : std::vector<std::vector<double>> {  // [T][D]
  using std::vector<std::vector<double>>::vector;
};

inline rows operator+(rows a, rows const& b) {
  for (std::size_t t = 0; t < a.size(); ++t)
    for (std::size_t i = 0; i < a[t].size(); ++i) a[t][i] += b[t][i];
  return a;
}
inline rows operator*(double c, rows a) {
  for (auto& r : a)
    for (double& v : r) v *= c;
  return a;
}

/// A decoder written out token by token, by the names of its weights: nothing is fused, shared or kept.
class written_out {
 public:
  /// `frequencies`: of the rotation, radians per position, worked out elsewhere. `batch` must live on.
  written_out(accrete::io::model_config config, accrete::data::ragged_batch const& batch,
              std::vector<double> frequencies)
      : config_(std::move(config)), batch_(batch), frequencies_(std::move(frequencies)) {}

  /// A weight under Hugging Face's name, [rows][columns]; a gain or bias is one row. The embedding is looked up
  /// at once.
  void take(std::string const& name, rows values) {
    biases += name.ends_with(".bias") ? 1 : 0;
    if (name == "model.embed_tokens.weight")
      for (auto const id : batch_.tokens) embedded.push_back(values[std::size_t(id)]);
    else
      weights_[name] = std::move(values);
  }
  /// All of a student's.
  template <class Student>
  void take(Student& s) {
    visit_parameters(s, [&](std::string const& name, auto v, accrete::model::parameter_role role) {
      rows values;
      if (role == accrete::model::parameter_role::bias)
        return take(name, rows(1, std::vector<double>(v.data, v.data + v.rows())));
      for (accrete::index_t i = 0; i < v.rows(); ++i) values.emplace_back(v.row(i), v.row(i) + v.columns());
      take(name, std::move(values));
    });
    for (auto id : batch_.tokens) {
      auto const table = s.embedding();
      embedded.emplace_back(table.row(id), table.row(id) + table.columns());
    }
  }

  rows embedded;
  int biases = 0;

  [[nodiscard]] rows norm(std::string const& name, rows x) const {
    for (auto& r : x) normalize(r.data(), r.size(), weights_.at(name + ".weight")[0]);
    return x;
  }
  [[nodiscard]] rows attn(int layer, rows const& x) const {
    std::string const here = prefix(layer) + "self_attn.";
    auto const q = heads_of(times(x, here + "q_proj"), here + "q_norm", true);
    auto const k = heads_of(times(x, here + "k_proj"), here + "k_norm", true);
    auto const v = heads_of(times(x, here + "v_proj"), here + "v_norm", false);
    std::size_t const size = std::size_t(config_.head_dim);
    std::size_t const group = std::size_t(config_.num_attention_heads / config_.num_key_value_heads);
    rows out(x.size(), std::vector<double>(q[0].size()));
    for (std::size_t d = 0; d + 1 < batch_.offsets.size(); ++d)
      for (std::size_t i = std::size_t(batch_.offsets[d]); i < std::size_t(batch_.offsets[d + 1]); ++i)
        for (std::size_t h = 0; h * size < q[0].size(); ++h) {
          std::size_t const first = std::size_t(batch_.offsets[d]), kv = h / group * size;
          std::vector<double> share;
          double total = 0;
          for (std::size_t j = first; j <= i; ++j) {
            double score = 0;
            for (std::size_t c = 0; c < size; ++c) score += q[i][h * size + c] * k[j][kv + c];
            share.push_back(std::exp(score / std::sqrt(double(size))));
            total += share.back();
          }
          for (std::size_t j = first; j <= i; ++j)
            for (std::size_t c = 0; c < size; ++c)
              out[i][h * size + c] += share[j - first] / total * v[j][kv + c];
        }
    return times(out, here + "o_proj");
  }
  [[nodiscard]] rows mlp(int layer, rows const& x) const {
    std::string const here = prefix(layer) + "mlp.";
    rows gate = times(x, here + "gate_proj");
    rows const up = times(x, here + "up_proj");
    for (std::size_t t = 0; t < gate.size(); ++t)
      for (std::size_t i = 0; i < gate[t].size(); ++i)
        gate[t][i] = gate[t][i] / (1 + std::exp(-gate[t][i])) * up[t][i];
    return times(gate, here + "down_proj");
  }
  /// A pre-norm decoder of `depth` layers, as Llama and Qwen are: what its head reads.
  [[nodiscard]] rows pre_norm(int depth) const {
    rows x = embedded;
    for (int l = 0; l < depth; ++l) {
      x = x + attn(l, norm(prefix(l) + "input_layernorm", x));
      x = x + mlp(l, norm(prefix(l) + "post_attention_layernorm", x));
    }
    return norm("model.norm", x);
  }
  static std::string prefix(int layer) { return "model.layers." + std::to_string(layer) + "."; }

 private:
  void normalize(double* x, std::size_t n, std::vector<double> const& gain) const {
    double squares = 0;
    for (std::size_t i = 0; i < n; ++i) squares += x[i] * x[i];
    double const root = std::sqrt(squares / double(n) + config_.rms_norm_eps);
    for (std::size_t i = 0; i < n; ++i) x[i] *= gain[i] / root;
  }
  [[nodiscard]] rows times(rows const& x, std::string const& name) const {
    rows out;
    for (auto const& r : x) {
      out.emplace_back();
      auto const bias = weights_.find(name + ".bias");
      for (auto const& w : weights_.at(name + ".weight")) {
        double sum = bias == weights_.end() ? 0.0 : bias->second[0][out.back().size()];
        for (std::size_t i = 0; i < r.size(); ++i) sum += r[i] * w[i];
        out.back().push_back(sum);
      }
    }
    return out;
  }
  /// Normalizes each head where it has a gain, then turns it by its position.
  [[nodiscard]] rows heads_of(rows x, std::string const& gain, bool turned) const {
    std::size_t const size = std::size_t(config_.head_dim);
    auto const found = weights_.find(gain + ".weight");
    for (std::size_t t = 0; t < x.size(); ++t)
      for (std::size_t first = 0; first < x[t].size(); first += size) {
        double* const head = x[t].data() + first;
        if (found != weights_.end()) normalize(head, size, found->second[0]);
        for (std::size_t i = 0; turned && i < size / 2; ++i) {
          double const angle = batch_.positions[t] * frequencies_.at(i);
          double const a = head[i], b = head[i + size / 2];
          head[i] = a * std::cos(angle) - b * std::sin(angle);
          head[i + size / 2] = b * std::cos(angle) + a * std::sin(angle);
        }
      }
    return x;
  }

  accrete::io::model_config config_;
  accrete::data::ragged_batch const& batch_;
  std::vector<double> frequencies_;
  std::map<std::string, rows> weights_;
};

}  // namespace test
