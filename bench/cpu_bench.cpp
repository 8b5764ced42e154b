// What the CPU backend reaches, in floating-point operations a second (counting useful ones only) and bytes a
// second (each operand once). The first line, the provider's own product at 2048 x 768 x 2048, is what the
// others are measured against.
//
// usage: cpu_bench [--benchmark_filter=..] [--benchmark_repetitions=5 --benchmark_report_aggregates_only=true]
//   OMP_NUM_THREADS sets the threads.
#include <benchmark/benchmark.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "accrete/cpu/backend.hpp"
#include "accrete/tensor/tensor.hpp"

namespace ac = accrete;
using ac::index_t;
using ac::store;
using matrix = ac::tensor<float, 2>;

namespace {

// A step of 8 documents of 256 tokens. Two sets of sizes: those of the step that speed is stated for, and those
// of the small pretrained teacher.
constexpr index_t tokens = 2048;
constexpr index_t document = 256;

matrix numbers(index_t rows, index_t columns, float size = 1.0F) {
  matrix m({rows, columns});
  std::uint64_t state = 42;
  for (index_t i = 0; i < m.size(); ++i) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    m.data()[i] = size * (float(state >> 40) / float(1 << 23) - 1.0F);
  }
  return m;
}

void count(benchmark::State& state, double operations, double elements) {
  using benchmark::Counter;
  auto const rate = Counter::kIsIterationInvariantRate;
  if (operations > 0) state.counters["flops"] = Counter(operations, rate, Counter::kIs1000);
  state.counters["bytes"] = Counter(elements * double(sizeof(float)), rate, Counter::kIs1000);
}

ac::cpu::backend<float> const& context() {
  static ac::cpu::backend<float> const ctx;
  return ctx;
}

void bm_gemm(benchmark::State& state) {
  auto const a = numbers(2048, 768);
  auto const b = numbers(768, 2048);
  matrix c({2048, 2048});
  for (auto _ : state) {
    using ac::cpu::operand;
    ac::cpu::backend<float>::gemm::multiply<float>(context().threads(), operand::as_is, operand::as_is,
                                                   store::replace, a.view(), b.view(), c.view());
  }
  count(state, 2.0 * 2048 * 768 * 2048, 0);
}
BENCHMARK(bm_gemm)->UseRealTime()->Unit(benchmark::kMillisecond);

/// range: tokens, in, out.
void bm_linear(benchmark::State& state) {
  index_t const t = state.range(0), in = state.range(1), out = state.range(2);
  auto const x = numbers(t, in), w = numbers(out, in);
  matrix y({t, out});
  for (auto _ : state) linear(context(), x, w, y, store::replace);
  count(state, 2.0 * double(t * in * out), double(t * in + in * out + t * out));
}
void bm_linear_backward_input(benchmark::State& state) {
  index_t const t = state.range(0), in = state.range(1), out = state.range(2);
  auto const dy = numbers(t, out), w = numbers(out, in);
  matrix dx({t, in});
  for (auto _ : state) linear_backward_input(context(), dy, w, dx, store::replace);
  count(state, 2.0 * double(t * in * out), double(t * in + in * out + t * out));
}
void bm_linear_backward_weight(benchmark::State& state) {
  index_t const t = state.range(0), in = state.range(1), out = state.range(2);
  auto const dy = numbers(t, out), x = numbers(t, in);
  matrix dw({out, in});
  for (auto _ : state) linear_backward_weight(context(), dy, x, dw, store::add);
  count(state, 2.0 * double(t * in * out), double(t * in + 2 * in * out + t * out));
}
void linear_sizes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"tokens", "in", "out"})->UseRealTime()->Unit(benchmark::kMillisecond);
  for (auto const& [t, in, out] : std::vector<std::array<index_t, 3>>{
           {tokens, 768, 1280},  // q|k|v, 12 and 4 heads of 64
           {tokens, 768, 768},
           {tokens, 768, 4096},  // gate|up
           {tokens, 2048, 768},
           {512, 768, 32768},  // a slice through the vocabulary head
           {tokens, 576, 960},
           {tokens, 576, 3072},
           {tokens, 1536, 576},
           {64, 576, 49152},
           {256, 576, 49152},
       })
    b->Args({t, in, out});
}
BENCHMARK(bm_linear)->Apply(linear_sizes);
BENCHMARK(bm_linear_backward_input)->Apply(linear_sizes);
BENCHMARK(bm_linear_backward_weight)->Apply(linear_sizes);

/// 12 query and 4 key/value heads of 64; range: length of the documents.
struct attention_operands {
  explicit attention_operands(index_t length) {
    for (index_t t = 0; t <= tokens; t += length) offsets.push_back(t);
  }
  [[nodiscard]] ac::view<index_t const, 1> documents() const {
    return {offsets.data(), {index_t(offsets.size())}};
  }
  /// Scores of the causal half only.
  [[nodiscard]] double operations_per_product() const {
    double const length = double(offsets[1]);
    return 2.0 * double(tokens) * (length + 1) / 2 * 768;
  }
  ac::attention_shape shape{12, 4, 64, 0.125};
  std::vector<index_t> offsets;
  matrix q = numbers(tokens, 768), k = numbers(tokens, 256), v = numbers(tokens, 256), out{{tokens, 768}},
         log_sum_exp{{tokens, 12}};
};
void bm_attention(benchmark::State& state) {
  attention_operands a(state.range(0));
  for (auto _ : state) attention(context(), a.q, a.k, a.v, a.documents(), a.shape, a.out, a.log_sum_exp);
  count(state, 2 * a.operations_per_product(), tokens * (2 * 768 + 2 * 256));
}
void bm_attention_backward(benchmark::State& state) {
  attention_operands a(state.range(0));
  attention(context(), a.q, a.k, a.v, a.documents(), a.shape, a.out, a.log_sum_exp);
  auto const dout = numbers(tokens, 768);
  matrix dq({tokens, 768}), dk({tokens, 256}), dv({tokens, 256});
  for (auto _ : state) {
    attention_backward(context(), a.q, a.k, a.v, a.documents(), a.shape, a.out, a.log_sum_exp, dout, dq, dk,
                       dv);
  }
  count(state, 5 * a.operations_per_product(), tokens * (4 * 768 + 4 * 256));
}
BENCHMARK(bm_attention)
    ->Arg(document)
    ->Arg(tokens)
    ->ArgName("length")
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK(bm_attention_backward)
    ->Arg(document)
    ->Arg(tokens)
    ->ArgName("length")
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

/// range: rows, vocabulary, temperature x 10.
void bm_distillation_loss(benchmark::State& state) {
  index_t const rows = state.range(0), vocabulary = state.range(1);
  auto const teacher = numbers(rows, vocabulary, 10);
  auto student = numbers(rows, vocabulary, 10);
  std::vector<std::int32_t> const targets(std::size_t(rows), 7);
  std::array<double, 2> sums{};
  ac::distillation_weights const weights{double(state.range(2)) / 10, 0.7, 0.3, 1e-3};
  for (auto _ : state) {
    distillation_loss(context(), teacher, student, {targets.data(), {rows}}, weights, {sums.data(), {2}});
  }
  count(state, 0, 3.0 * double(rows * vocabulary));
}
BENCHMARK(bm_distillation_loss)
    ->Args({256, 49152, 10})
    ->Args({256, 49152, 20})
    ->Args({256, 151936, 10})
    ->ArgNames({"rows", "vocabulary", "tau_x10"})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

void bm_cross_entropy(benchmark::State& state) {
  index_t const rows = state.range(0), vocabulary = state.range(1);
  auto const logits = numbers(rows, vocabulary, 10);
  std::vector<std::int32_t> const targets(std::size_t(rows), 7);
  double sum = 0;
  for (auto _ : state) cross_entropy(context(), logits, {targets.data(), {rows}}, {&sum, {1}});
  count(state, 0, double(rows * vocabulary));
}
BENCHMARK(bm_cross_entropy)->Args({256, 49152})->UseRealTime()->Unit(benchmark::kMillisecond);

void bm_add_rms_norm(benchmark::State& state) {
  auto const a = numbers(tokens, 768), b = numbers(tokens, 768), gain = numbers(1, 768);
  matrix sum({tokens, 768}), y({tokens, 768}), rstd({1, tokens});
  for (auto _ : state) {
    add_rms_norm(context(), a, b, sum, gain.view().flat(), 1e-5, y, rstd.view().flat());
  }
  count(state, 0, 4.0 * tokens * 768);
}
BENCHMARK(bm_add_rms_norm)->UseRealTime()->Unit(benchmark::kMicrosecond);

void bm_rms_norm_backward(benchmark::State& state) {
  auto const x = numbers(tokens, 768), dy = numbers(tokens, 768), gain = numbers(1, 768),
             rstd = numbers(1, tokens);
  matrix dx({tokens, 768}), dgain({1, 768});
  for (auto _ : state) {
    rms_norm_backward(context(), x, gain.view().flat(), rstd.view().flat(), dy, dx, dgain.view().flat(),
                      store::add);
  }
  count(state, 0, 4.0 * tokens * 768);
}
BENCHMARK(bm_rms_norm_backward)->UseRealTime()->Unit(benchmark::kMicrosecond);

void bm_rotary(benchmark::State& state) {
  auto x = numbers(tokens, 1024);
  matrix cosines({document, 32}), sines({document, 32});
  std::vector<double> frequencies;
  for (int i = 0; i < 32; ++i) frequencies.push_back(std::pow(1e5, -i / 32.0));
  rotary_table(context(), {frequencies.data(), {32}}, cosines, sines);
  std::vector<std::int32_t> positions;
  for (index_t t = 0; t < tokens; ++t) positions.push_back(std::int32_t(t % document));
  for (auto _ : state) {
    rotary(context(), x, {positions.data(), {tokens}}, cosines, sines, ac::rotation::forward);
  }
  count(state, 0, 2.0 * tokens * 1024);
}
BENCHMARK(bm_rotary)->UseRealTime()->Unit(benchmark::kMicrosecond);

void bm_swiglu(benchmark::State& state) {
  auto const gate_up = numbers(tokens, 4096, 4);
  matrix out({tokens, 2048});
  for (auto _ : state) swiglu(context(), gate_up, out);
  count(state, 0, 3.0 * tokens * 2048);
}
BENCHMARK(bm_swiglu)->UseRealTime()->Unit(benchmark::kMicrosecond);

void bm_swiglu_backward(benchmark::State& state) {
  auto const gate_up = numbers(tokens, 4096, 4), dout = numbers(tokens, 2048);
  matrix dgate_up({tokens, 4096});
  for (auto _ : state) swiglu_backward(context(), gate_up, dout, dgate_up);
  count(state, 0, 5.0 * tokens * 2048);
}
BENCHMARK(bm_swiglu_backward)->UseRealTime()->Unit(benchmark::kMicrosecond);

constexpr index_t parameters = 20'000'000;

void bm_adamw(benchmark::State& state) {
  auto p = numbers(1, parameters);
  auto const g = numbers(1, parameters);
  matrix m({1, parameters}), v({1, parameters});
  for (auto _ : state) {
    adamw(context(), p.view().flat(), g.view().flat(), m.view().flat(), v.view().flat(), {1e-4});
  }
  count(state, 0, 7.0 * parameters);
}
BENCHMARK(bm_adamw)->UseRealTime()->Unit(benchmark::kMillisecond);

void bm_sum_of_squares(benchmark::State& state) {
  auto const g = numbers(1, parameters);
  for (auto _ : state) benchmark::DoNotOptimize(sum_of_squares(context(), g.view().flat()));
  count(state, 0, parameters);
}
BENCHMARK(bm_sum_of_squares)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
