#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "accrete/model/student.hpp"
#include "accrete/reference/backend.hpp"
#include "support/catch.hpp"
#include "support/step_by_hand.hpp"

using namespace accrete;

namespace {

using backend_type = reference::backend<double>;
using rows = std::vector<std::vector<double>>;  // [T][D]

rows operator+(rows a, rows const& b) {
  for (std::size_t t = 0; t < a.size(); ++t)
    for (std::size_t i = 0; i < a[t].size(); ++i) a[t][i] += b[t][i];
  return a;
}
rows operator*(double c, rows a) {
  for (auto& r : a)
    for (double& v : r) v *= c;
  return a;
}

/// A decoder written out token by token, by the names of its weights: nothing is fused, shared or kept.
class written_out {
 public:
  template <class Student>
  written_out(Student& s, data::ragged_batch const& batch) : config_(s.config()), batch_(batch) {
    visit_parameters(s, [&](std::string const& name, auto v, model::parameter_role) {
      for (index_t i = 0; i < v.rows(); ++i)
        weights_[name].push_back(std::vector<double>(v.row(i), v.row(i) + v.columns()));
    });
    for (auto id : batch.tokens) {
      auto const table = s.embedding();
      embedded.push_back(std::vector<double>(table.row(id), table.row(id) + table.columns()));
    }
  }

  rows embedded;

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
      for (auto const& w : weights_.at(name + ".weight")) {
        double sum = 0;
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
          double const angle =
              batch_.positions[t] * std::pow(config_.rope_theta, -2.0 * double(i) / double(size));
          double const a = head[i], b = head[i + size / 2];
          head[i] = a * std::cos(angle) - b * std::sin(angle);
          head[i + size / 2] = b * std::cos(angle) + a * std::sin(angle);
        }
      }
    return x;
  }

  io::model_config config_;
  data::ragged_batch const& batch_;
  std::map<std::string, rows> weights_;
};

/// What the head reads, as the papers write it.
template <class P>
rows expected(written_out const& m, int depth) {
  rows x = m.embedded;
  rows y;
  if constexpr (std::is_same_v<P, placement::post> || std::is_same_v<P, placement::peri_embedding>)
    x = m.norm("model.entry_norm", x);
  y = x;
  for (int l = 0; l < depth; ++l) {
    auto N = [&](std::string const& name, rows const& v) { return m.norm(m.prefix(l) + name, v); };
    auto attn = [&](rows const& v) { return m.attn(l, v); };
    auto mlp = [&](rows const& v) { return m.mlp(l, v); };
    if constexpr (std::is_same_v<P, placement::pre>) {
      x = x + attn(N("input_layernorm", x));
      x = x + mlp(N("post_attention_layernorm", x));
    } else if constexpr (std::is_same_v<P, placement::post>) {
      x = N("attn_norm_0", x + attn(x));
      x = N("mlp_norm_0", x + mlp(x));
    } else if constexpr (std::is_base_of_v<placement::peri, P>) {
      x = x + N("post_attention_layernorm", attn(N("input_layernorm", x)));
      x = x + N("post_feedforward_layernorm", mlp(N("pre_feedforward_layernorm", x)));
    } else if constexpr (std::is_same_v<P, placement::olmo2>) {
      x = x + N("post_attention_layernorm", attn(x));
      x = x + N("post_feedforward_layernorm", mlp(x));
    } else if constexpr (std::is_same_v<P, placement::deepnorm>) {
      double const alpha = std::pow(2.0 * depth, 0.25);
      x = N("attn_norm_0", alpha * x + attn(x));
      x = N("mlp_norm_0", alpha * x + mlp(x));
    } else if constexpr (std::is_same_v<P, placement::hybrid>) {
      x = N("post_attention_layernorm", x + attn(x));
      x = x + mlp(x);
    } else if constexpr (std::is_same_v<P, placement::mix>) {
      if (l < depth / 4) {
        x = N("attn_norm_0", x + attn(x));
        x = N("mlp_norm_0", x + mlp(x));
      } else {
        x = x + attn(N("attn_norm_0", x));
        x = x + mlp(N("mlp_norm_0", x));
      }
    } else {
      static_assert(std::is_same_v<P, placement::residual>);
      rows const a = attn(x);
      x = N("attn_norm_0", x + a);
      rows const b = mlp(x);
      x = N("mlp_norm_0", x + b);
      y = y + a + b;
    }
  }
  if constexpr (std::is_same_v<P, placement::post> || std::is_same_v<P, placement::deepnorm>) return x;
  if constexpr (std::is_same_v<P, placement::residual>) return x + m.norm("model.norm", y);
  return m.norm("model.norm", x);
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("student computes its placement's equations as the papers write them",
                        "[model][equation][U43]", test::placements) {
  for (bool const qk_norm : {false, true}) {
    auto teacher = test::tiny_teacher<backend_type>({.heads = 4, .kv_heads = 2, .qk_norm = qk_norm});
    student<TestType, test::joint_for<TestType>, backend_type> of(teacher, seed{42});
    test::enlarge_weights(of);
    auto const batch = test::random_batch({3, 1, 5, 2});
    test::step_by_hand d(teacher, of, batch);
    auto const hidden = d.hidden();
    written_out const plain(of, batch);
    std::vector<double> wanted;
    for (auto const& r : expected<TestType>(plain, of.active_layers()))
      wanted.insert(wanted.end(), r.begin(), r.end());
    CAPTURE(placement::name_of<TestType>(), qk_norm);
    CHECK(test::worst_difference({{"hidden", hidden}}, {{"hidden", wanted}}) < 1e-12);
  }
}
