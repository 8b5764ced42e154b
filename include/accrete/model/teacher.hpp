#pragma once
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "accrete/data/tokenizer.hpp"
#include "accrete/io/weights.hpp"
#include "accrete/model/block_stack.hpp"
#include "accrete/model/layer.hpp"
#include "accrete/model/weight_reader.hpp"
#include "accrete/placement/pre.hpp"

namespace accrete::inline v0 {

/// A pretrained model that is only asked, never trained: no gradients, no moments. Loading one takes the memory
/// of its weights and a buffer of a few rows.
template <backend B>
class teacher {
 public:
  using table = tensor<typename B::scalar, 2, typename B::space>;
  using stack_type = model::stack<B>;
  using workspace = typename stack_type::workspace;

  /// Llama and Qwen are pre-norm stacks, so they run on the same layers as a student; a student of another
  /// placement that was saved and is a teacher now says which one.
  template <norm_placement P = placement::pre>
  teacher(B ctx, io::weight_source const& source, std::optional<data::tokenizer> words, index_t max_positions,
          P = {})
      : ctx_(std::move(ctx)),
        config_(source.config),
        identity_(source.identity()),
        tokenizer_(std::move(words)),
        stack_(std::make_unique<model::block_stack<P, B>>(
            ctx_, model::layer_shape(config_, layer::like_teacher::of(config_)), config_.depth_of_constants(),
            max_positions)) {
    model::weight_reader<B> reader(ctx_, source);
    auto const read_table = [&](std::string const& name) {
      auto made =
          std::make_shared<table>(typename table::extents_type{config_.vocab_size, config_.hidden_size});
      reader.read(name, made->view());
      return made;
    };
    embedding_ = read_table("model.embed_tokens.weight");
    head_ = config_.tie_word_embeddings ? embedding_ : read_table("lm_head.weight");
    for (index_t l = 0; l < config_.num_hidden_layers; ++l) stack_->append_empty();
    stack_->parameters([&](model::parameter<B>& p) {
      for (auto const& part : p.parts) {
        if (is_vector(p.role))
          reader.read(part.name, model::as_row(p.value.view().slice(part.first, part.rows)));
        else if (p.stored.empty())
          reader.read(part.name, p.value.view().slice(part.first, part.rows));
        else
          reader.read(part.name, p.stored.view().slice(part.first, part.rows));
      }
    });
  }

  [[nodiscard]] B const& context() const { return ctx_; }
  [[nodiscard]] io::model_config const& config() const { return config_; }
  [[nodiscard]] std::string const& identity() const { return identity_; }
  [[nodiscard]] std::shared_ptr<table const> embedding() const { return embedding_; }
  /// The head's matrix; the same memory as the embedding where the two are tied.
  [[nodiscard]] std::shared_ptr<table const> head() const { return head_; }
  /// Where its last norm is one of the whole stack: what a student's ends start from.
  [[nodiscard]] bool has_final_norm() { return !stack_->readout_gains().empty(); }
  [[nodiscard]] model::parameter<B>& final_norm() { return stack_->readout_gains().front(); }
  [[nodiscard]] stack_type& stack() { return *stack_; }
  [[nodiscard]] index_t max_positions() const { return stack_->max_positions(); }

  /// Throws config_error for a model that came without one.
  [[nodiscard]] data::tokenizer const& tokenizer() const {
    if (!tokenizer_)
      throw config_error("teacher::tokenizer", "a model without a tokenizer", "one that carries its own",
                         "use a GGUF file, or give token ids instead of text");
    return *tokenizer_;
  }
  [[nodiscard]] bool has_tokenizer() const { return tokenizer_.has_value(); }

  /// As the stack's: in `lent` where that is large enough.
  [[nodiscard]] workspace make_workspace(index_t tokens, view<std::byte, 1, typename B::space> lent = {}) {
    return stack_->make_workspace(tokens, false, {}, lent);
  }
  /// Last hidden state after the final norm, [T, D].
  model::real_matrix<B> forward(model::token_batch<typename B::space> const& batch, workspace& w) {
    return stack_->forward(ctx_, embedding_->view(), batch, w);
  }

 private:
  B ctx_;
  io::model_config config_;
  std::string identity_;
  std::optional<data::tokenizer> tokenizer_;
  std::shared_ptr<table const> embedding_, head_;
  std::unique_ptr<stack_type> stack_;
};

}  // namespace accrete::inline v0
