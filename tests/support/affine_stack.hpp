#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <initializer_list>
#include <type_traits>
#include <utility>
#include <vector>

#include "accrete/backend/backend.hpp"
#include "accrete/placement/norm_placement.hpp"
#include "accrete/tensor/tensor.hpp"
#include "accrete/wiring/execute.hpp"

/// Residual equations over a backend's own operations, with affine maps for attention and MLP: small enough to
/// be worked out by hand, and without a model around them.
namespace test {

namespace wiring = accrete::wiring;
using accrete::index_t;

// Members of the same name would hide the backend's functions from argument-dependent lookup.
namespace of_backend {
template <class B, class... V>
void add_to(B const& ctx, V... v) {
  add(ctx, v...);
}
template <class B, class... V>
void scale_to(B const& ctx, double c, V... v) {
  scale(ctx, c, v...);
}
template <class B, class... V>
void accumulate_to(B const& ctx, double c, V... v) {
  accumulate(ctx, c, v...);
}
template <class B, class V>
void copy_to(B const& ctx, V from, V to) {
  copy(ctx, from.flat(), to.flat());
}
}  // namespace of_backend

/// v -> weight v + bias, on rows.
struct affine_map {
  affine_map(index_t width, std::initializer_list<double> rows, std::initializer_list<double> offsets)
      : weight({width, width}), bias(offsets) {
    std::copy(rows.begin(), rows.end(), weight.data());
  }
  accrete::tensor<double, 2> weight;  // [out, in]
  std::vector<double> bias;           // [out]
};

template <class B>
struct affine_kernels {
  using matrix = accrete::view<double, 2>;
  using row = accrete::view<double, 1>;

  B const& ctx;
  affine_map const& attn;
  affine_map const& mlp;
  double eps;
  accrete::tensor<double, 1> gain, gain_gradient;  // [D], one for all norms: unit gains

  affine_kernels(B const& context, affine_map const& a, affine_map const& m, double epsilon)
      : ctx(context),
        attn(a),
        mlp(m),
        eps(epsilon),
        gain({a.weight.extent(0)}),
        gain_gradient({a.weight.extent(0)}) {
    std::fill_n(gain.data(), gain.size(), 1.0);
  }

  void add(matrix a, matrix b, matrix out) { of_backend::add_to(ctx, a, b, out); }
  void scale(double c, matrix a, matrix out) { of_backend::scale_to(ctx, c, a, out); }
  void accumulate(double c, matrix a, matrix out) { of_backend::accumulate_to(ctx, c, a, out); }
  void copy(matrix a, matrix out) { of_backend::copy_to(ctx, a, out); }
  void norm(int, matrix a, matrix out, row r) { rms_norm(ctx, a, gain.view(), eps, out, r); }
  void add_norm(matrix a, matrix b, matrix sum, int, matrix out, row r) {
    add_rms_norm(ctx, a, b, sum, gain.view(), eps, out, r);
  }
  void norm_backward(int, matrix a, row r, matrix d, matrix da, accrete::store how) {
    rms_norm_backward(ctx, a, gain.view(), r, d, da, gain_gradient.view(), how);
  }
  template <class Sublayer>
  affine_map const& map_of() const {
    return std::is_same_v<Sublayer, wiring::attention> ? attn : mlp;
  }
  template <class Sublayer>
  void apply(matrix a, matrix out) {
    auto const& map = map_of<Sublayer>();
    for (index_t t = 0; t < out.rows(); ++t) std::copy(map.bias.begin(), map.bias.end(), out.row(t));
    linear(ctx, a, map.weight.view(), out, accrete::store::add);
  }
  template <class Sublayer>
  void apply_backward(matrix, matrix d, matrix da, accrete::store how) {
    linear_backward_input(ctx, d, map_of<Sublayer>().weight.view(), da, how);
  }
};

/// Owns the buffers of one program's run.
template <class P, class B>
class program_run {
 public:
  using matrix = accrete::view<double, 2>;
  using row = accrete::view<double, 1>;
  using kernels = affine_kernels<B>;

  program_run(index_t tokens, index_t width, wiring::site where) : where_(where) {
    auto take = [&](int count, std::vector<matrix>& views) {
      for (int i = 0; i < count; ++i) {
        matrices_.emplace_back(std::array{tokens, width});
        views.push_back(matrices_.back().view());
      }
    };
    take(P::num_outputs, out);
    take(P::num_inputs, gradient);
    take(wiring::forward_plan_of<P, wiring::purpose::training>.num_kept, kept_);
    take(wiring::num_scratch<P>, scratch_);
    for (int i = 0; i < P::num_rows; ++i) {
      vectors_.emplace_back(std::array{tokens});
      rows_.push_back(vectors_.back().view());
    }
  }

  void forward(kernels& k, std::vector<matrix> const& in) {
    in_ = in;
    execution(k).template forward<wiring::purpose::training>();
  }
  void backward(kernels& k, std::vector<matrix> const& incoming) {
    execution(k).backward(first<P::num_outputs>(incoming), first<P::num_inputs>(gradient));
  }

  std::vector<matrix> out, gradient;

 private:
  template <int N>
  static std::array<matrix, std::size_t(N)> first(std::vector<matrix> const& v) {
    std::array<matrix, std::size_t(N)> a;
    std::copy_n(v.begin(), a.size(), a.begin());
    return a;
  }
  auto execution(kernels& k) {
    wiring::frame<P, matrix, row> f;
    f.in = first<P::num_inputs>(in_);
    f.out = first<P::num_outputs>(out);
    f.kept = kept_.data();
    f.rows = rows_.data();
    f.scratch = scratch_.data();
    return wiring::execution<P, kernels, matrix, row>(k, where_, f);
  }

  wiring::site where_;
  std::vector<accrete::tensor<double, 2>> matrices_;
  std::vector<accrete::tensor<double, 1>> vectors_;
  std::vector<matrix> in_, kept_, scratch_;
  std::vector<row> rows_;
};

/// What comes out for every row `x`, and the gradient of out . `upstream` with respect to it.
struct vectors {
  std::vector<double> out, gradient;
};

/// Runs over `copies` equal rows, so that a backend's row loop is in play; checks that all rows agree.
template <class B>
class affine_stack {
 public:
  using matrix = accrete::view<double, 2>;
  static constexpr index_t copies = 3;

  affine_stack(affine_map const& attn, affine_map const& mlp, std::vector<double> x,
               std::vector<double> upstream, double eps = 0)
      : kernels_(ctx_, attn, mlp, eps),
        x_(std::move(x)),
        upstream_(std::move(upstream)),
        width_(index_t(x_.size())) {}

  affine_stack(affine_stack const&) = delete;  // the kernels point at this object's context
  affine_stack& operator=(affine_stack const&) = delete;

  /// One equation of one stream.
  template <class E>
  vectors equation(E, wiring::site where = {0, 1}) {
    accrete::tensor<double, 2> x = rows(x_), d = rows(upstream_);
    program_run<wiring::program<E>, B> run(copies, width_, where);
    run.forward(kernels_, {x.view()});
    auto const out = one_row(run.out[0]);
    run.backward(kernels_, {d.view()});
    return {out, one_row(run.gradient[0])};
  }

  /// Layers 0, 1, ... of a stack of `final_depth` under P, between its ends.
  template <class P>
  vectors stack(int num_layers, int final_depth) {
    using entry_program = wiring::program<std::remove_cvref_t<decltype(P::boundary.entry)>>;
    using readout_program = wiring::program<std::remove_cvref_t<decltype(P::boundary.readout)>>;
    constexpr std::size_t streams = std::size_t(accrete::placement::num_streams<P>);
    static_assert(readout_program::num_inputs == int(streams), "the head reads every stream here");
    accrete::tensor<double, 2> x = rows(x_), d = rows(upstream_);
    program_run<entry_program, B> entry(copies, width_, {0, final_depth});
    program_run<readout_program, B> readout(copies, width_, {final_depth, final_depth});

    entry.forward(kernels_, {x.view()});
    std::vector<matrix> start = entry.out;
    start.resize(streams, entry.out[0]);  // one value that all streams start from
    std::vector<double> out;
    auto read_out = [&](std::vector<matrix> const& top) {
      readout.forward(kernels_, top);
      out = one_row(readout.out[0]);
      readout.backward(kernels_, {d.view()});
      return readout.gradient;
    };
    std::vector<matrix> const d_start = through_layers<P>(0, num_layers, final_depth, start, read_out);
    for (std::size_t s = entry.out.size(); s < streams; ++s)
      of_backend::accumulate_to(ctx_, 1.0, d_start[s], d_start[0]);
    entry.backward(kernels_, d_start);
    return {out, one_row(entry.gradient[0])};
  }

 private:
  // Up through the layers, then `top`, and back down: gradients of layer l's inputs. One call for each layer,
  // so that each may have a program of its own (by_depth).
  template <class P, class Top>
  std::vector<matrix> through_layers(int l, int num_layers, int final_depth, std::vector<matrix> const& in,
                                     Top& top) {
    if (l == num_layers) return top(in);
    wiring::site const where{l, final_depth};
    return wiring::with_program(accrete::placement::layer_of<P>{}, where, [&]<class Program>(Program) {
      program_run<Program, B> run(copies, width_, where);
      run.forward(kernels_, in);
      run.backward(kernels_, through_layers<P>(l + 1, num_layers, final_depth, run.out, top));
      return keep(run.gradient);
    });
  }
  // The run that made a gradient goes out of scope before the one below reads it.
  std::vector<matrix> keep(std::vector<matrix> const& from) {
    std::vector<matrix> views;
    gradients_.push_back({});
    for (matrix const& m : from) {
      gradients_.back().emplace_back(m.extents);
      of_backend::copy_to(ctx_, m, gradients_.back().back().view());
      views.push_back(gradients_.back().back().view());
    }
    return views;
  }

  accrete::tensor<double, 2> rows(std::vector<double> const& v) const {
    accrete::tensor<double, 2> m({copies, width_});
    for (index_t t = 0; t < copies; ++t) std::copy(v.begin(), v.end(), m.view().row(t));
    return m;
  }
  std::vector<double> one_row(matrix m) const {
    std::vector<double> v(m.row(0), m.row(0) + m.columns());
    for (index_t t = 1; t < m.rows(); ++t)
      for (index_t j = 0; j < m.columns(); ++j)
        if (!(std::abs(m(t, j) - m(0, j)) < 1e-12)) v[std::size_t(j)] = std::nan("");
    return v;
  }

  B ctx_{};
  affine_kernels<B> kernels_;
  std::vector<double> x_, upstream_;
  index_t width_;
  std::vector<std::vector<accrete::tensor<double, 2>>> gradients_;
};

}  // namespace test
