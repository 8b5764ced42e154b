#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
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
using real_matrix = view<typename B::real, 2, typename B::space>;
template <backend B>
using real_matrix_in = view<typename B::real const, 2, typename B::space>;
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

/// What a model's weights are for.
enum class weight_use {
  trained,  ///< held as B::real, from which what products read follows
  read,     ///< matrices held as B::scalar alone
};

/// One weight with what training needs of it. A frozen one has no gradient and no moments.
template <backend B>
struct parameter {
  using scalar = typename B::scalar;
  using real = typename B::real;
  using space = typename B::space;
  static constexpr bool one_format = std::is_same_v<scalar, real>;

  parameter_role role = parameter_role::matrix;
  std::vector<parameter_part> parts;
  tensor<real, 2, space> value;  // [rows, columns]; gain [1, n], bias [n, 1]; empty where only `stored` is held
  tensor<scalar, 2, space> stored;          // a matrix as products read it; empty where that is `value` itself
  tensor<real, 2, space> gradient;          // as value, or empty
  tensor<real, 2, space> moment1, moment2;  // as value, or empty
  std::int64_t updates = 0;  ///< of the moments: Adam's bias correction counts from the last reset

  parameter() = default;
  parameter(parameter_role r, std::vector<parameter_part> named_rows, index_t columns,
            weight_use use = weight_use::trained)
      : role(r), parts(std::move(named_rows)) {
    typename tensor<real, 2, space>::extents_type const sizes{parts.back().first + parts.back().rows, columns};
    bool const multiplied = !one_format && !is_vector(role);
    if (multiplied) stored = decltype(stored)(sizes);
    if (!multiplied || use == weight_use::trained) value = decltype(value)(sizes);
  }

  [[nodiscard]] bool exists() const { return !parts.empty(); }
  [[nodiscard]] std::size_t bytes() const { return value.bytes() + stored.bytes(); }
  /// The matrix as products read it. // [rows, columns]
  [[nodiscard]] matrix_in<B> operand() const {
    if constexpr (one_format)
      return value.view();
    else
      return stored.view();
  }
  /// After `value` has changed by other hands than the optimizer's: makes what products read of it anew.
  void refresh(B const& ctx) {
    if (!stored.empty() && !value.empty()) copy(ctx, value.view(), stored.view());
  }
  [[nodiscard]] bool trainable() const { return !gradient.empty(); }
  /// The name of the whole: its parts joined.
  [[nodiscard]] std::string name() const {
    std::string joined;
    for (auto const& p : parts) joined += (joined.empty() ? "" : "|") + p.name;
    return joined;
  }
  /// A gain or a bias as the vector it is. // [n]
  [[nodiscard]] real_vector<B> as_vector() { return value.view().flat(); }
  /// The gradient of one; empty where it is frozen: backends then leave it out.
  [[nodiscard]] real_vector<B> vector_gradient() {
    return trainable() ? gradient.view().flat() : real_vector<B>{};
  }

  /// Allocates gradient and moments, all zero, or frees them.
  void set_trainable(bool on) {
    if (on == trainable() || value.empty()) return;
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
  tensor<typename B::real, 1> drawn({rows.size()});
  random_stream const stream(s, "init/" + purpose, std::uint64_t(layer));
  for (index_t k = 0; k < drawn.size(); ++k)
    drawn.view()(k) = static_cast<typename B::real>(std * stream.normal(std::uint64_t(k)));
  upload(ctx, drawn.view(), rows.flat());
  p.refresh(ctx);
}

template <backend B>
void fill(B const& ctx, parameter<B>& p, double value) {
  tensor<typename B::real, 1> host({p.value.size()});
  for (index_t k = 0; k < host.size(); ++k) host.view()(k) = static_cast<typename B::real>(value);
  upload(ctx, host.view(), p.value.view().flat());
  p.refresh(ctx);
}

}  // namespace accrete::inline v0::model
