#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "accrete/core/error.hpp"
#include "accrete/core/rng.hpp"
#include "accrete/io/rotary_scaling.hpp"
#include "accrete/model/decoder_layer.hpp"
#include "accrete/model/end_norms.hpp"
#include "accrete/model/layer_kernels.hpp"
#include "accrete/model/stack_workspace.hpp"
#include "accrete/model/token_batch.hpp"

namespace accrete::inline v0::model {

/// What the memory of a step depends on, of one layer and of the whole: read from a placement's programs.
struct layer_needs {
  int kept = 0;              ///< [T, D] tensors from forward to backward
  int restored = 0;          ///< of these, what can be made again without the MLP
  int rows = 0;              ///< per-token statistics
  bool keeps_input = false;  ///< its input is among what it keeps
};
struct stack_needs {
  int num_streams = 1;
  int scratch = 0;
  layer_needs entry, readout;
};

/// Decoder layers between two ends, whatever their placement: weights, and how to run them. Trainers, students
/// and teachers are compiled for this alone; one virtual call a pass leads to the placement's own code.
template <backend B>
class stack {
 public:
  using workspace = stack_workspace<B>;
  using batch_type = token_batch<typename B::space>;

  virtual ~stack() = default;

  /// Embedding rows of the batch -> what the head reads, [T, D], in w.hidden.
  virtual real_matrix<B> forward(B const& ctx, matrix_in<B> embedding_table, batch_type const& batch,
                                 workspace& w) = 0;
  /// From w.dhidden (overwritten) to the gradients of everything trainable, which are added to.
  virtual void backward(B const& ctx, batch_type const& batch, workspace& w) = 0;
  /// A layer at the top: a student's, its weights drawn by the placement's rule from streams of its number; or
  /// one whose weights are zero and only read, for a reader to fill.
  virtual void append_fresh(B const& ctx, seed s) = 0;
  virtual void append_empty() = 0;

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
  /// What lasts no longer than a pass lies in `lent` where that is large enough, and without `backward` all
  /// does.
  [[nodiscard]] workspace make_workspace(index_t tokens, bool backward, made_again again = {},
                                         view<std::byte, 1, typename B::space> lent = {}) {
    workspace measured;
    lay_out(measured, tokens, backward, again);
    using arena_type = arena<typename B::space>;
    auto const kept = index_t(measured.memory.used());
    auto const passing = index_t(measured.passing.used());
    workspace w;
    if (!backward && kept + passing <= lent.size()) {
      w.memory = arena_type(lent.slice(0, kept));
      w.passing = arena_type(lent.slice(kept, passing));
    } else {
      w.memory = arena_type(std::size_t(kept));
      w.passing = backward && passing <= lent.size() ? arena_type(lent.slice(0, passing))
                                                     : arena_type(std::size_t(passing));
    }
    lay_out(w, tokens, backward, again);
    return w;
  }

  /// Multiply-adds of one token's forward through the active layers' matrices and, at a context of `length`,
  /// attention.
  [[nodiscard]] double multiply_adds(double length) const {
    double const matrices = double(shape_.matrix_elements());
    double const attention = double(shape_.query_columns()) * length;  // scores and mix, half masked each
    return double(num_layers()) * (matrices + attention);
  }

  /// The stack itself, for who knows its type. Throws config_error for another one.
  template <class Stack>
  [[nodiscard]] Stack& as() {
    auto* const found = dynamic_cast<Stack*>(this);
    if (found == nullptr)
      throw config_error("stack::as",
                         "another placement than " + placement::name_of<typename Stack::placement_type>(),
                         "the stack's own");
    return *found;
  }

 protected:
  /// `final_depth` is what depth-dependent constants are taken at; `positions` the longest document.
  stack(B const& ctx, layer_shape const& shape, int final_depth, index_t positions, int entry_norms,
        int readout_norms)
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
    for (auto const& name : end_norm_names("entry_norm", entry_norms))
      entry_gains_.push_back(gain("model." + name + ".weight"));
    for (auto const& name : end_norm_names("norm", readout_norms))
      readout_gains_.push_back(gain("model." + name + ".weight"));
  }
  stack(stack&&) = default;
  stack& operator=(stack&&) = default;

  [[nodiscard]] virtual stack_needs needs() const = 0;
  [[nodiscard]] virtual layer_needs needs_of(int layer) const = 0;

  void check_fits(batch_type const& batch, workspace const& w) const {
    if (batch.num_tokens() > w.capacity)
      throw shape_error("stack", "a batch of " + std::to_string(batch.num_tokens()) + " tokens",
                        "at most " + std::to_string(w.capacity), "make the workspace for a larger capacity");
  }

  layer_shape shape_;
  int final_depth_;
  rotary_tables<B> rotary_;
  std::vector<decoder_layer<B>> layers_;
  std::vector<parameter<B>> entry_gains_, readout_gains_;

 private:
  void lay_out(workspace& w, index_t tokens, bool backward, made_again again) {
    using real = typename B::real;
    auto const all_needs = needs();
    int const num_streams = all_needs.num_streams;
    auto& a = w.memory;
    w.capacity = tokens;
    w.first_kept = backward ? first_backward_layer() : num_layers();
    auto wide = [&](auto& from) { return from.template matrix<real>(tokens, shape_.hidden); };
    auto several = [&](int count, auto& from) {
      std::vector<real_matrix<B>> all;
      for (int i = 0; i < count; ++i) all.push_back(wide(from));
      return all;
    };
    w.embedded = wide(all_needs.entry.keeps_input ? a : w.passing);
    w.hidden = wide(a);
    w.again = again;
    // A layer that keeps its input finds it here; the others hand theirs on through two shared sets, made where
    // one is met. Where layers are made again, a group's first input is kept, and those inside of it are every
    // group's.
    std::array<std::vector<real_matrix<B>>, 2> shared;
    auto const handed_on = [&](int l) {
      auto& set = shared[std::size_t(l % 2)];
      if (set.empty()) set = several(num_streams, a);
      return set;
    };
    std::vector<std::vector<real_matrix<B>>> inside;
    for (int j = 1; backward && j < (std::min)(again.layers, num_layers() - w.first_kept); ++j)
      inside.push_back(several(num_streams, a));
    for (int l = 0; l <= num_layers(); ++l) {
      bool const above = backward && w.first_kept <= l;
      int const j = again.layers > 0 && l < num_layers() ? w.place_in_group(l) : 0;
      if (above && j > 0)
        w.boundary.push_back(inside[std::size_t(j - 1)]);
      else if (above && (again.layers > 0 || l == num_layers() || needs_of(l).keeps_input))
        w.boundary.push_back(several(num_streams, a));
      else
        w.boundary.push_back(handed_on(l));
    }
    auto rows = [&](int count) {
      std::vector<real_vector<B>> all;
      for (int i = 0; i < count; ++i) all.push_back(a.template vector<real>(tokens));
      return all;
    };
    w.entry_rows = rows(all_needs.entry.rows);
    w.readout_rows = rows(all_needs.readout.rows);
    w.entry_kept = several(all_needs.entry.kept, a);
    w.readout_kept = several(all_needs.readout.kept, a);
    lay_out_layers(w, tokens, backward);
    if (backward) {
      w.dhidden = w.hidden;
      w.gradient = several(num_streams, w.passing);
      w.other_gradient = several(num_streams, w.passing);
    }
    w.scratch = take_layer_scratch<B>(w.passing, shape_, tokens, all_needs.scratch, backward);
  }

  /// Layers that keep nothing share one set of buffers, those that are made again a set for each place in a
  /// group.
  void lay_out_layers(workspace& w, index_t tokens, bool backward) {
    auto& a = w.memory;
    layer_needs most;
    for (int l = 0; l < num_layers(); ++l) {
      most.rows = (std::max)(most.rows, needs_of(l).rows);
      most.kept = (std::max)(most.kept, needs_of(l).kept);
      most.restored = (std::max)(most.restored, needs_of(l).restored);
    }
    if (w.first_kept > 0)
      w.layers.assign(std::size_t(w.first_kept), take_layer_memory<B>(a, shape_, tokens, 0, most.rows));
    common_memory<B> common;
    bool const shares = backward && w.again.mlp && w.first_kept < num_layers();
    if (shares) {
      for (int i = 0; i < most.restored; ++i)
        common.restored.push_back(w.passing.template matrix<typename B::real>(tokens, shape_.hidden));
      common.gate_up = w.passing.template spread_matrix<typename B::scalar>(tokens, 2 * shape_.intermediate);
    }
    std::vector<layer_memory<B>> of_group;
    for (int l = w.first_kept; l < num_layers(); ++l) {
      if (w.again.layers == 0) {
        auto const own = needs_of(l);
        w.layers.push_back(take_layer_memory<B>(a, shape_, tokens, own.kept, own.rows,
                                                shares ? &common : nullptr, own.restored));
        continue;
      }
      auto const j = std::size_t(w.place_in_group(l));
      if (j == of_group.size())
        of_group.push_back(take_layer_memory<B>(a, shape_, tokens, most.kept, most.rows));
      w.layers.push_back(of_group[j]);
    }
  }
};

}  // namespace accrete::inline v0::model
