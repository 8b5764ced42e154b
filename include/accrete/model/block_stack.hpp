#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "accrete/model/layer_kernels.hpp"
#include "accrete/model/run_program.hpp"
#include "accrete/model/stack.hpp"
#include "accrete/placement/norm_placement.hpp"
#include "accrete/wiring/execute.hpp"

namespace accrete::inline v0::model {

/// Decoder layers under a placement, between its two ends. Depth is a run-time count: growth changes it and
/// initializes memory, never a type. Shared by the students of every schedule, and by teachers.
template <norm_placement P, backend B>
class block_stack final : public stack<B> {
 public:
  using placement_type = P;
  using layer_equation = placement::layer_of<P>;
  using entry_program = wiring::program<std::remove_cvref_t<decltype(P::boundary.entry)>>;
  using readout_program = wiring::program<std::remove_cvref_t<decltype(P::boundary.readout)>>;
  using typename stack<B>::workspace;
  using typename stack<B>::batch_type;
  static constexpr int num_streams = placement::num_streams<P>;
  static_assert(
      entry_program::num_inputs == 1 &&
          (entry_program::num_outputs == 1 || entry_program::num_outputs == num_streams),
      "[accrete] norm_placement: boundary.entry must map the embedding x to one value or to one per stream");
  static_assert(
      readout_program::num_outputs == 1 && readout_program::num_inputs <= num_streams,
      "[accrete] norm_placement: boundary.readout must map the streams to the one value the head reads");

  /// `final_depth` is what depth-dependent constants are taken at; `positions` the longest document.
  block_stack(B const& ctx, layer_shape const& shape, int final_depth, index_t positions)
      : stack<B>(ctx, shape, final_depth, positions, entry_program::num_gains, readout_program::num_gains) {}

  using stack<B>::num_layers;

  void append_fresh(B const& ctx, seed s) override {
    layers_.push_back(fresh_layer<P>(ctx, shape_, {num_layers(), final_depth_}, s));
  }
  void append_empty() override {
    wiring::site const where{num_layers(), final_depth_};
    layers_.emplace_back(shape_, where, placement::norm_names_at<P>(where), weight_use::read);
  }

  real_matrix<B> forward(B const& ctx, matrix_in<B> embedding_table, batch_type const& batch,
                         workspace& w) override {
    return forward(ctx, embedding_table, batch, w, wiring::no_look{});
  }
  /// The same, and `look(sublayers, stream, rows)` sees the residual streams, [T, D], before the first layer (0
  /// sublayers) and after each sublayer: 1 and 2 in layer 0, 3 and 4 in layer 1. A placement whose equation is
  /// a whole layer has nothing to show between its sublayers. The rows are good during the call.
  template <class Look>
  real_matrix<B> forward(B const& ctx, matrix_in<B> embedding_table, batch_type const& batch, workspace& w,
                         Look&& look) {
    this->check_fits(batch, w);
    index_t const n = batch.num_tokens();
    embed(ctx, embedding_table, batch.tokens, w.embedded.slice(0, n));
    run_entry(ctx, w, n, [](auto& run) { run.template forward<wiring::purpose::training>(); });
    for (int s = entry_program::num_outputs; s < num_streams; ++s)
      detail::call_copy(ctx, w.boundary[0][0].slice(0, n), w.boundary[0][std::size_t(s)].slice(0, n));
    show_boundary(w, n, 0, look);
    for (int l = 0; l < num_layers(); ++l) {
      run_layer(ctx, batch, w, l, [&]<class Program>(layer_execution<Program>& run) {
        auto const between = show_between<Program>(2 * l + 1, look);
        if (l >= w.first_kept)
          run.template forward<wiring::purpose::training>(between);
        else
          run.template forward<wiring::purpose::inference>(between);
      });
      show_boundary(w, n, l + 1, look);
    }
    run_readout(ctx, w, n, [](auto& run) { run.template forward<wiring::purpose::training>(); });
    return w.hidden.slice(0, n);
  }

  void backward(B const& ctx, batch_type const& batch, workspace& w) override {
    index_t const n = batch.num_tokens();
    std::vector<real_matrix<B>>* now = &w.gradient;
    std::vector<real_matrix<B>>* next = &w.other_gradient;
    run_readout(ctx, w, n, [&](auto& run) {
      run.backward({w.dhidden.slice(0, n)},
                   detail::first_rows<std::size_t(readout_program::num_inputs)>(*now, n));
    });
    for (int s = readout_program::num_inputs; s < num_streams; ++s)
      detail::call_zero(ctx, (*now)[std::size_t(s)].slice(0, n));
    for (int l = num_layers() - 1; l >= w.first_kept; --l) {
      make_again(ctx, batch, w, l);
      run_layer(ctx, batch, w, l, [&]<class Program>(layer_execution<Program>& run) {
        constexpr auto streams = std::size_t(num_streams);
        if constexpr (wiring::backward_plan_of<Program>.in_place) {
          run.backward(detail::first_rows<1>(*now, n));
        } else {
          run.backward(detail::first_rows<streams>(*now, n), detail::first_rows<streams>(*next, n));
          std::swap(now, next);
        }
      });
    }
    bool entry_trains = false;
    for (auto& g : entry_gains_) entry_trains = entry_trains || g.trainable();
    if (!entry_trains) return;
    for (int s = entry_program::num_outputs; s < num_streams; ++s)
      detail::call_accumulate(ctx, 1.0, (*now)[std::size_t(s)].slice(0, n), (*now)[0].slice(0, n));
    run_entry(ctx, w, n, [&](auto& run) {
      run.backward(detail::first_rows<std::size_t(entry_program::num_outputs)>(*now, n),
                   {(*next)[0].slice(0, n)});
    });
  }

 private:
  using stack<B>::shape_;
  using stack<B>::final_depth_;
  using stack<B>::rotary_;
  using stack<B>::layers_;
  using stack<B>::entry_gains_;
  using stack<B>::readout_gains_;

  template <class Program>
  using layer_execution = wiring::execution<Program, layer_kernels<B>, real_matrix<B>, real_vector<B>>;

  /// Before the backward of layer l: what it shares with all layers, and what its group needs, if that group's
  /// buffers were used since its forward.
  void make_again(B const& ctx, batch_type const& batch, workspace& w, int l) {
    if (w.again.mlp) run_layer(ctx, batch, w, l, [](auto& run) { run.restore(); });
    if (w.again.layers == 0 || l == num_layers() - 1 || w.place_in_group(l) != w.again.layers - 1) return;
    for (int m = l - w.again.layers + 1; m <= l; ++m)
      run_layer(ctx, batch, w, m, [](auto& run) { run.template forward<wiring::purpose::training>(); });
  }
  template <class Look>
  void show_boundary(workspace const& w, index_t n, int layers, Look& look) {
    if constexpr (!std::is_same_v<std::remove_cvref_t<Look>, wiring::no_look>)
      for (int s = 0; s < num_streams; ++s)
        look(2 * layers, s, w.boundary[std::size_t(layers)][std::size_t(s)].slice(0, n));
  }
  /// What a layer's program shows its values to: `look` gets to see those the streams are between sublayers.
  template <class Program, class Look>
  static auto show_between(int sublayers, Look& look) {
    if constexpr (std::is_same_v<std::remove_cvref_t<Look>, wiring::no_look>)
      return wiring::no_look{};
    else
      return [sublayers, &look](auto number, real_matrix<B> const& rows) {
        constexpr auto streams = wiring::values_between_sublayers<Program>(P::wiring);
        for (std::size_t s = 0; s < streams.size(); ++s)
          if (streams[s] == number) look(sublayers, int(s), rows);
      };
  }
  template <class Use>
  void run_layer(B const& ctx, batch_type const& batch, workspace& w, int l, Use&& use) {
    auto& weights = layers_[std::size_t(l)];
    layer_run<B> const run{ctx,       shape_,  weights, w.layers[std::size_t(l)],
                           w.scratch, rotary_, batch,   w.again.mlp};
    layer_kernels<B> kernels(run);
    wiring::with_program(layer_equation{}, weights.where, [&]<class Program>(Program) {
      detail::with_execution<Program, B>(kernels, weights.where, w.boundary[std::size_t(l)],
                                         w.boundary[std::size_t(l) + 1], run.memory.kept, run.memory.rows,
                                         w.scratch.wiring, batch.num_tokens(), use);
    });
  }
  template <class Use>
  void run_entry(B const& ctx, workspace& w, index_t n, Use&& use) {
    equation_kernels<B> kernels{ctx, shape_.eps, entry_gains_};
    detail::with_execution<entry_program, B>(kernels, {0, final_depth_}, std::span(&w.embedded, 1),
                                             w.boundary[0], w.entry_kept, w.entry_rows, w.scratch.wiring, n,
                                             use);
  }
  template <class Use>
  void run_readout(B const& ctx, workspace& w, index_t n, Use&& use) {
    equation_kernels<B> kernels{ctx, shape_.eps, readout_gains_};
    detail::with_execution<readout_program, B>(kernels, {final_depth_, final_depth_}, w.boundary.back(),
                                               std::span(&w.hidden, 1), w.readout_kept, w.readout_rows,
                                               w.scratch.wiring, n, use);
  }

  template <class Program>
  static layer_needs needs_of_program() {
    layer_needs n{wiring::forward_plan_of<Program, wiring::purpose::training>.num_kept, Program::num_restored,
                  Program::num_rows};
    for (int v = 0; v < Program::size; ++v)
      n.keeps_input = n.keeps_input || (Program::at(v).code == wiring::op::input && Program::kept(v));
    return n;
  }
  [[nodiscard]] stack_needs needs() const override {
    constexpr int ends_scratch =
        (std::max)(wiring::num_scratch<entry_program>, wiring::num_scratch<readout_program>);
    return {num_streams, (std::max)(wiring::equation_traits<layer_equation>::num_scratch, ends_scratch),
            needs_of_program<entry_program>(), needs_of_program<readout_program>()};
  }
  [[nodiscard]] layer_needs needs_of(int l) const override {
    return wiring::with_program(layer_equation{}, layers_[std::size_t(l)].where,
                                []<class Program>(Program) { return needs_of_program<Program>(); });
  }
};

}  // namespace accrete::inline v0::model
