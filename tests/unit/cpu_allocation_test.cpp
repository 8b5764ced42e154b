#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

#include "accrete/cpu/backend.hpp"
#include "support/agreement.hpp"
#include "support/catch.hpp"
#include "support/counted_new.hpp"

// Tensors, and so the backend's scratch, ask for aligned memory.
void* operator new(std::size_t size, std::align_val_t alignment) {
  test::bytes_requested += size;
  auto const step = std::size_t(alignment);
  if (void* const at = std::aligned_alloc(step, (size + step) / step * step)) return at;
  throw std::bad_alloc();
}
void operator delete(void* at, std::align_val_t) noexcept {
  std::free(at);
}
void operator delete(void* at, std::size_t, std::align_val_t) noexcept {
  std::free(at);
}

namespace ac = accrete;
using ac::index_t;
using ac::store;
using test::flat;
using test::matrix;
using test::normal;

namespace {

/// What a library takes for its own products is not ours to count.
using own_backend = ac::cpu::backend<float, ac::cpu::eigen_gemm>;

/// Every operation once, at the sizes of a small step of `tokens` tokens.
class step {
 public:
  explicit step(index_t tokens)
      : tokens_(tokens),
        documents_{0, tokens / 3, tokens / 3 + 1, tokens},
        targets_(std::size_t(tokens), 5),
        x_(normal<float>(tokens, 96, 1)),
        y_(normal<float>(tokens, 96, 2)),
        w_(normal<float>(96, 96, 3)),
        wide_(normal<float>(tokens, 192, 4)),
        wide2_(tokens, 192),
        kv_(normal<float>(tokens, 48, 5)),
        dk_(tokens, 48),
        dv_(tokens, 48),
        logits_(normal<float>(tokens, 2000, 6)),
        teacher_(normal<float>(tokens, 2000, 7)),
        gain_(normal<float>(1, 96, 8)),
        head_gain_(normal<float>(1, 16, 9)),
        rstd_(tokens, 1),
        head_rstd_(tokens, 6),
        cosines_(tokens, 8),
        sines_(tokens, 8) {}

  void operator()(own_backend const& ctx) {
    ac::view<std::int32_t const, 1> const targets(targets_.data(), {tokens_});
    ac::view<index_t const, 1> const documents(documents_.data(), {4});
    ac::attention_shape const shape{6, 3, 16, 0.25};
    double sums[2] = {};
    zero(ctx, flat(y_));
    embed(ctx, x_, targets, y_);
    add(ctx, x_, y_, y_);
    scale(ctx, 0.5, y_, y_);
    accumulate(ctx, 0.5, x_, y_);
    copy(ctx, flat(y_), flat(x_));
    linear(ctx, x_, w_, y_, store::replace);
    linear_backward_input(ctx, x_, w_, y_, store::add);
    linear_backward_weight(ctx, y_, x_, w_, store::replace);
    add_bias(ctx, flat(gain_), y_);
    add_bias_backward(ctx, y_, flat(gain_));
    rms_norm(ctx, x_, flat(gain_), 1e-5, y_, flat(rstd_));
    add_rms_norm(ctx, x_, y_, x_, flat(gain_), 1e-5, y_, flat(rstd_));
    rms_norm_backward(ctx, x_, flat(gain_), flat(rstd_), y_, y_, flat(gain_), store::replace);
    head_rms_norm(ctx, x_, flat(head_gain_), 1e-5, y_, head_rstd_);
    head_rms_norm_backward(ctx, x_, flat(head_gain_), head_rstd_, y_, y_, flat(head_gain_), store::add);
    rotary_table(ctx, frequencies_, cosines_, sines_);
    rotary(ctx, x_, targets, cosines_, sines_, ac::rotation::forward);
    attention(ctx, x_, kv_, kv_, documents, shape, y_, head_rstd_);
    attention_backward(ctx, x_, kv_, kv_, documents, shape, y_, head_rstd_, x_,
                       wide_.view().column_slice(0, 96), dk_, dv_);
    swiglu(ctx, wide_, y_);
    swiglu_backward(ctx, wide_, y_, wide2_);
    distillation_loss(ctx, teacher_, logits_, logits_, targets, {2.0, 0.7, 0.3, 0.1}, {sums, {2}});
    cross_entropy(ctx, teacher_, targets, {sums, {1}});
    adamw(ctx, flat(y_), flat(x_), flat(wide_).slice(0, tokens_ * 96), flat(wide2_).slice(0, tokens_ * 96), {});
    squares += sum_of_squares(ctx, flat(y_));
  }

  double squares = 0;

 private:
  index_t tokens_;
  std::vector<index_t> documents_;
  std::vector<std::int32_t> targets_;
  matrix<float> x_, y_, w_, wide_, wide2_, kv_, dk_, dv_, logits_, teacher_, gain_, head_gain_, rstd_,
      head_rstd_;
  matrix<float> cosines_, sines_;
  test::vector<double> frequencies_ = test::plain_frequencies(16, 1e4);
};

}  // namespace

TEST_CASE("cpu backend allocates nothing after its first step, nor for smaller ones", "[cpu][backend]") {
  own_backend const ctx(2);
  step large(300);
  step small(40);
  std::size_t before = test::bytes_requested;
  large(ctx);
  REQUIRE(test::bytes_requested > before);  // the count counts
  before = test::bytes_requested;
  large(ctx);
  small(ctx);
  large(ctx);
  std::size_t const after = test::bytes_requested;
  REQUIRE(after == before);
}
