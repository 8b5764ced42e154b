#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "accrete/backend/backend.hpp"
#include "accrete/core/rng.hpp"
#include "accrete/core/view.hpp"
#include "accrete/tensor/tensor.hpp"

namespace accrete::inline v0::model {

template <backend B>
using matrix = view<typename B::scalar, 2, typename B::space>;
template <backend B>
using matrix_in = view<typename B::scalar const, 2, typename B::space>;
template <backend B>
using vector = view<typename B::scalar, 1, typename B::space>;
template <backend B>
using real_matrix = view<typename B::real, 2, typename B::space>;
template <backend B>
using real_vector = view<typename B::real, 1, typename B::space>;

enum class parameter_role { embedding, matrix, norm_gain, bias, head };

/// Gains and biases: one number a feature, which is never decayed and has one dimension in files.
[[nodiscard]] constexpr bool is_vector(parameter_role role) {
  return role == parameter_role::norm_gain || role == parameter_role::bias;
}

/// A named range of rows of a fused weight: q, k and v inside q|k|v, in the matrix and in its bias.
struct parameter_part {
  std::string name;  ///< Hugging Face's, whole: model.layers.0.self_attn.q_proj.weight
  index_t first = 0;
  index_t rows = 0;
};

/// One weight with what training needs of it. A frozen one has no gradient and no moments.
template <backend B>
struct parameter {
  parameter_role role = parameter_role::matrix;
  std::vector<parameter_part> parts;
  tensor<typename B::scalar, 2, typename B::space> value;           // [rows, columns]; gain [1, n], bias [n, 1]
  tensor<typename B::scalar, 2, typename B::space> gradient;        // as value, or empty
  tensor<typename B::real, 2, typename B::space> moment1, moment2;  // as value, or empty
  std::int64_t updates = 0;  ///< of the moments: Adam's bias correction counts from the last reset

  parameter() = default;
  parameter(parameter_role r, std::vector<parameter_part> named_rows, index_t columns)
      : role(r), parts(std::move(named_rows)), value({parts.back().first + parts.back().rows, columns}) {}

  [[nodiscard]] bool exists() const { return !value.empty(); }
  [[nodiscard]] bool trainable() const { return !gradient.empty(); }
  /// The name of the whole: its parts joined.
  [[nodiscard]] std::string name() const {
    std::string joined;
    for (auto const& p : parts) joined += (joined.empty() ? "" : "|") + p.name;
    return joined;
  }
  /// A gain or a bias as the vector it is. // [n]
  [[nodiscard]] vector<B> as_vector() { return value.view().flat(); }
  /// The gradient of one; empty where it is frozen: backends then leave it out.
  [[nodiscard]] vector<B> vector_gradient() { return trainable() ? gradient.view().flat() : vector<B>{}; }

  /// Allocates gradient and moments, all zero, or frees them.
  void set_trainable(bool on) {
    if (on == trainable() || !exists()) return;
    auto const sizes = value.view().extents;
    gradient = on ? decltype(gradient)(sizes) : decltype(gradient)();
    moment1 = on ? decltype(moment1)(sizes) : decltype(moment1)();
    moment2 = on ? decltype(moment2)(sizes) : decltype(moment2)();
    updates = 0;
  }
};

/// Rows named one after the other, from row 0 on.
inline std::vector<parameter_part> named_rows(std::vector<std::pair<std::string, index_t>> const& rows) {
  std::vector<parameter_part> parts;
  index_t first = 0;
  for (auto const& [name, count] : rows) {
    parts.push_back({name, first, count});
    first += count;
  }
  return parts;
}

/// Draws part number `i` from N(0, std), from a stream of its own: (seed, its short name, the layer's creation
/// id).
template <backend B>
void draw_normal(B const& ctx, parameter<B>& p, std::size_t i, double std, seed s, std::string const& purpose,
                 int layer) {
  auto const& part = p.parts[i];
  auto const rows = p.value.view().slice(part.first, part.rows);
  tensor<typename B::scalar, 1> drawn({rows.size()});
  random_stream const stream(s, "init/" + purpose, std::uint64_t(layer));
  for (index_t k = 0; k < drawn.size(); ++k)
    drawn.view()(k) = static_cast<typename B::scalar>(std * stream.normal(std::uint64_t(k)));
  upload(ctx, drawn.view(), rows.flat());
}

template <backend B>
void fill(B const& ctx, parameter<B>& p, double value) {
  tensor<typename B::scalar, 1> host({p.value.size()});
  for (index_t k = 0; k < host.size(); ++k) host.view()(k) = static_cast<typename B::scalar>(value);
  upload(ctx, host.view(), p.value.view().flat());
}

}  // namespace accrete::inline v0::model
