#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "accrete/core/error.hpp"
#include "accrete/model/block_stack.hpp"
#include "accrete/model/decoder_layer.hpp"

namespace accrete::inline v0::model {

/// A stack that is only run forward, whatever its placement: who asks a teacher need not be compiled for the
/// teacher's wiring. One virtual call a batch.
template <backend B>
class asked_stack {
 public:
  /// Buffers of one stack for batches of some size.
  class workspace {
   public:
    [[nodiscard]] std::size_t bytes() const { return held_ ? held_->bytes() : 0; }

   private:
    friend class asked_stack;
    struct buffers {
      virtual ~buffers() = default;
      [[nodiscard]] virtual std::size_t bytes() const = 0;
    };
    std::unique_ptr<buffers> held_;
  };

  /// Layers as the placement wants them, every weight zero.
  template <norm_placement P>
  static asked_stack make(P, B const& ctx, layer_shape const& shape, int num_layers, int final_depth,
                          index_t positions) {
    asked_stack made;
    made.held_ = std::make_unique<holder<P>>(ctx, shape, num_layers, final_depth, positions);
    return made;
  }

  [[nodiscard]] index_t max_positions() const { return held_->max_positions(); }
  [[nodiscard]] double multiply_adds(double length) const { return held_->multiply_adds(length); }
  [[nodiscard]] std::vector<parameter<B>>& readout_gains() { return held_->readout_gains(); }
  void parameters(std::function<void(parameter<B>&)> const& visit) { held_->parameters(visit); }
  [[nodiscard]] workspace make_workspace(index_t tokens) {
    workspace w;
    w.held_ = held_->make_workspace(tokens);
    return w;
  }
  /// What the head reads, [T, D]; `w` is of this stack.
  matrix<B> forward(B const& ctx, matrix_in<B> embedding, token_batch<typename B::space> const& batch,
                    workspace& w) {
    return held_->forward(ctx, embedding, batch, *w.held_);
  }
  /// The stack itself, for who knows its placement. Throws config_error for another one.
  template <norm_placement P>
  [[nodiscard]] block_stack<P, B>& as() {
    auto* const found = dynamic_cast<holder<P>*>(held_.get());
    if (found == nullptr)
      throw config_error("asked_stack::as", "another placement than " + placement::name_of<P>(),
                         "the stack's own");
    return found->stack;
  }

 private:
  using buffers = typename workspace::buffers;
  struct any {
    virtual ~any() = default;
    [[nodiscard]] virtual index_t max_positions() const = 0;
    [[nodiscard]] virtual double multiply_adds(double length) const = 0;
    virtual std::vector<parameter<B>>& readout_gains() = 0;
    virtual void parameters(std::function<void(parameter<B>&)> const& visit) = 0;
    virtual std::unique_ptr<buffers> make_workspace(index_t tokens) = 0;
    virtual matrix<B> forward(B const& ctx, matrix_in<B> embedding, token_batch<typename B::space> const& batch,
                              buffers& w) = 0;
  };

  template <norm_placement P>
  struct holder final : any {
    using stack_type = block_stack<P, B>;
    struct typed final : buffers {
      explicit typed(typename stack_type::workspace w) : workspace(std::move(w)) {}
      [[nodiscard]] std::size_t bytes() const override { return workspace.memory.capacity(); }
      typename stack_type::workspace workspace;
    };

    holder(B const& ctx, layer_shape const& shape, int num_layers, int final_depth, index_t positions)
        : stack(ctx, shape, final_depth, positions) {
      for (int l = 0; l < num_layers; ++l) {
        wiring::site const where{l, final_depth};
        stack.append(decoder_layer<B>(shape, where, placement::norm_names_at<P>(where)));
      }
    }
    [[nodiscard]] index_t max_positions() const override { return stack.max_positions(); }
    [[nodiscard]] double multiply_adds(double length) const override { return stack.multiply_adds(length); }
    std::vector<parameter<B>>& readout_gains() override { return stack.readout_gains(); }
    void parameters(std::function<void(parameter<B>&)> const& visit) override { stack.parameters(visit); }
    std::unique_ptr<buffers> make_workspace(index_t tokens) override {
      return std::make_unique<typed>(stack.make_workspace(tokens, false));
    }
    matrix<B> forward(B const& ctx, matrix_in<B> embedding, token_batch<typename B::space> const& batch,
                      buffers& w) override {
      return stack.forward(ctx, embedding, batch, static_cast<typed&>(w).workspace);
    }
    stack_type stack;
  };

  std::unique_ptr<any> held_;
};

}  // namespace accrete::inline v0::model
