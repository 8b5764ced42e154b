#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "accrete/io/rotary_scaling.hpp"
#include "accrete/model/end_norms.hpp"
#include "accrete/model/layer_kernels.hpp"
#include "accrete/model/run_program.hpp"
#include "accrete/model/stack_workspace.hpp"
#include "accrete/placement/norm_placement.hpp"
#include "accrete/wiring/execute.hpp"

namespace accrete::inline v0::model {

/// Decoder layers under a placement, between its two ends. Depth is a run-time count: growth changes it and
/// initializes memory, never a type. Shared by the students of every schedule, and by teachers (pre-norm).
template <norm_placement P, backend B>
class block_stack {
 public:
  using layer_equation = placement::layer_of<P>;
  using entry_program = wiring::program<std::remove_cvref_t<decltype(P::boundary.entry)>>;
  using readout_program = wiring::program<std::remove_cvref_t<decltype(P::boundary.readout)>>;
  using workspace = stack_workspace<P, B>;
  using batch_type = token_batch<typename B::space>;
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
      : shape_(shape), final_depth_(final_depth) {
    auto const half = shape.attention.head_dim / 2;
    rotary_.cosines = tensor<typename B::real, 2, typename B::space>({positions, half});
    rotary_.sines = tensor<typename B::real, 2, typename B::space>({positions, half});
    auto const frequencies =
        io::rotary_frequencies(shape.attention.head_dim, shape.rope_theta, shape.features.rotary);
    rotary_table(ctx, view<double const, 1>(frequencies.data(), {half}), rotary_.cosines.view(),
                 rotary_.sines.view());
    auto gain = [&](std::string const& name) {
      return parameter<B>(parameter_role::norm_gain, named_rows({{name, 1}}), shape.hidden);
    };
    for (auto const& name : end_norm_names("entry_norm", entry_program::num_gains))
      entry_gains_.push_back(gain("model." + name + ".weight"));
    for (auto const& name : end_norm_names("norm", readout_program::num_gains))
      readout_gains_.push_back(gain("model." + name + ".weight"));
  }

  [[nodiscard]] layer_shape const& shape() const { return shape_; }
  [[nodiscard]] int num_layers() const { return int(layers_.size()); }
  [[nodiscard]] int final_depth() const { return final_depth_; }
  [[nodiscard]] index_t max_positions() const { return rotary_.cosines.extent(0); }
  [[nodiscard]] std::vector<decoder_layer<B>>& layers() { return layers_; }
  [[nodiscard]] std::vector<parameter<B>>& entry_gains() { return entry_gains_; }
  [[nodiscard]] std::vector<parameter<B>>& readout_gains() { return readout_gains_; }

  void append(decoder_layer<B> layer) { layers_.push_back(std::move(layer)); }

  /// Visits the ends' gains and every layer's parameters, in a fixed order.
  template <class Visit>
  void parameters(Visit&& visit) {
    for (auto& g : entry_gains_) visit(g);
    for (auto& l : layers_) l.parameters(visit);
    for (auto& g : readout_gains_) visit(g);
  }

  /// The lowest layer a backward has to reach: 0 if the entry's norm trains, num_layers() if no layer does.
  [[nodiscard]] int first_backward_layer() {
    for (auto& g : entry_gains_)
      if (g.trainable()) return 0;
    for (int l = 0; l < num_layers(); ++l) {
      bool any = false;
      layers_[std::size_t(l)].parameters([&](parameter<B>& p) { any = any || p.trainable(); });
      if (any) return l;
    }
    return num_layers();
  }

  /// Buffers for steps of at most `tokens`. Without `backward` nothing is kept and layers share everything.
  [[nodiscard]] workspace make_workspace(index_t tokens, bool backward) {
    workspace measured;
    lay_out(measured, tokens, backward);
    workspace w;
    w.memory = arena<typename B::space>(measured.memory.used());
    lay_out(w, tokens, backward);
    return w;
  }

  /// Embedding rows of the batch -> what the head reads, [T, D], in w.hidden.
  matrix<B> forward(B const& ctx, matrix_in<B> embedding_table, batch_type const& batch, workspace& w) {
    return forward(ctx, embedding_table, batch, w, wiring::no_look{});
  }
  /// The same, and `look(sublayers, stream, rows)` sees the residual streams, [T, D], before the first layer (0
  /// sublayers) and after each sublayer: 1 and 2 in layer 0, 3 and 4 in layer 1. A placement whose equation is
  /// a whole layer has nothing to show between its sublayers. The rows are good during the call.
  template <class Look>
  matrix<B> forward(B const& ctx, matrix_in<B> embedding_table, batch_type const& batch, workspace& w,
                    Look&& look) {
    check_fits(batch, w);
    index_t const n = batch.num_tokens();
    embed(ctx, embedding_table, batch.tokens, w.embedded.slice(0, n));
    run_entry(ctx, w, n, [](auto& run) { run.template forward<wiring::purpose::training>(); });
    for (int s = entry_program::num_outputs; s < num_streams; ++s)
      detail::copy_rows(ctx, w.boundary[0][0].slice(0, n), w.boundary[0][std::size_t(s)].slice(0, n));
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

  /// From w.dhidden (overwritten) to the gradients of everything trainable, which are added to.
  void backward(B const& ctx, batch_type const& batch, workspace& w) {
    index_t const n = batch.num_tokens();
    std::vector<matrix<B>>* now = &w.gradient;
    std::vector<matrix<B>>* next = &w.other_gradient;
    run_readout(ctx, w, n, [&](auto& run) {
      run.backward({w.dhidden.slice(0, n)},
                   detail::first_rows<std::size_t(readout_program::num_inputs)>(*now, n));
    });
    for (int s = readout_program::num_inputs; s < num_streams; ++s)
      detail::call_zero(ctx, (*now)[std::size_t(s)].slice(0, n));
    for (int l = num_layers() - 1; l >= w.first_kept; --l) {
      run_layer(ctx, batch, w, l, [&](auto& run) {
        constexpr auto streams = std::size_t(num_streams);
        run.backward(detail::first_rows<streams>(*now, n), detail::first_rows<streams>(*next, n));
      });
      std::swap(now, next);
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

  /// Multiply-adds of one token's forward through the active layers' matrices and, at a context of `length`,
  /// attention.
  [[nodiscard]] double multiply_adds(double length) const {
    double const matrices = double(shape_.matrix_elements());
    double const attention = double(shape_.query_columns()) * length;  // scores and mix, half masked each
    return double(num_layers()) * (matrices + attention);
  }

 private:
  template <class Program>
  using layer_execution = wiring::execution<Program, layer_kernels<B>, matrix<B>, real_vector<B>>;

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
      return [sublayers, &look](auto number, matrix<B> const& rows) {
        constexpr auto streams = wiring::values_between_sublayers<Program>(P::wiring);
        for (std::size_t s = 0; s < streams.size(); ++s)
          if (streams[s] == number) look(sublayers, int(s), rows);
      };
  }
  template <class Use>
  void run_layer(B const& ctx, batch_type const& batch, workspace& w, int l, Use&& use) {
    auto& weights = layers_[std::size_t(l)];
    layer_run<B> const run{ctx, shape_, weights, w.layers[std::size_t(l)], w.scratch, rotary_, batch};
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

  void check_fits(batch_type const& batch, workspace const& w) const {
    if (batch.num_tokens() > w.capacity)
      throw shape_error("block_stack", "a batch of " + std::to_string(batch.num_tokens()) + " tokens",
                        "at most " + std::to_string(w.capacity), "make the workspace for a larger capacity");
  }

  void lay_out(workspace& w, index_t tokens, bool backward) {
    using scalar = typename B::scalar;
    auto& a = w.memory;
    w.capacity = tokens;
    w.first_kept = backward ? first_backward_layer() : num_layers();
    auto wide = [&] { return a.template matrix<scalar>(tokens, shape_.hidden); };
    auto several = [&](int count) {
      std::vector<matrix<B>> all;
      for (int i = 0; i < count; ++i) all.push_back(wide());
      return all;
    };
    w.embedded = wide();
    w.hidden = wide();
    // A layer that keeps its input finds it here; the others hand theirs on through two shared sets.
    std::array const shared{several(num_streams), several(num_streams)};
    for (int l = 0; l <= num_layers(); ++l) {
      bool const keep = w.first_kept <= l && (l == num_layers() || keeps_input(l));
      w.boundary.push_back(keep && backward ? several(num_streams) : shared[std::size_t(l % 2)]);
    }
    auto rows = [&](int count) {
      std::vector<real_vector<B>> all;
      for (int i = 0; i < count; ++i) all.push_back(a.template vector<typename B::real>(tokens));
      return all;
    };
    w.entry_rows = rows(entry_program::num_rows);
    w.readout_rows = rows(readout_program::num_rows);
    w.entry_kept = several(wiring::forward_plan_of<entry_program, wiring::purpose::training>.num_kept);
    w.readout_kept = several(wiring::forward_plan_of<readout_program, wiring::purpose::training>.num_kept);
    int most_rows = 0;
    for (int l = 0; l < num_layers(); ++l) {
      auto const [kept, statistics] = plan_of(l);
      most_rows = (std::max)(most_rows, statistics);
      if (l >= w.first_kept) w.layers.push_back(take_layer_memory<B>(a, shape_, tokens, kept, statistics));
    }
    if (w.first_kept > 0) {
      auto const common = take_layer_memory<B>(a, shape_, tokens, 0, most_rows);
      w.layers.insert(w.layers.begin(), std::size_t(w.first_kept), common);
    }
    if (backward) {
      w.dhidden = wide();
      w.gradient = several(num_streams);
      w.other_gradient = several(num_streams);
    }
    constexpr int ends_scratch =
        (std::max)(wiring::num_scratch<entry_program>, wiring::num_scratch<readout_program>);
    constexpr int most_scratch = (std::max)(wiring::equation_traits<layer_equation>::num_scratch, ends_scratch);
    w.scratch = take_layer_scratch<B>(a, shape_, tokens, most_scratch, backward);
  }

  struct layer_plan {
    int kept, rows;
  };
  layer_plan plan_of(int l) const {
    return wiring::with_program(layer_equation{}, layers_[std::size_t(l)].where, []<class Program>(Program) {
      return layer_plan{wiring::forward_plan_of<Program, wiring::purpose::training>.num_kept,
                        Program::num_rows};
    });
  }
  bool keeps_input(int l) const {
    return wiring::with_program(layer_equation{}, layers_[std::size_t(l)].where, []<class Program>(Program) {
      bool any = false;
      for (int v = 0; v < Program::size; ++v)
        any = any || (Program::at(v).code == wiring::op::input && Program::kept(v));
      return any;
    });
  }

  layer_shape shape_;
  int final_depth_;
  rotary_tables<B> rotary_;
  std::vector<decoder_layer<B>> layers_;
  std::vector<parameter<B>> entry_gains_, readout_gains_;
};

}  // namespace accrete::inline v0::model
