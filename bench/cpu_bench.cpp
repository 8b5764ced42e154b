// What the CPU backend reaches, in floating-point operations a second (counting useful ones only) and bytes a
// second (each operand once). The first lines are the two roofs, streaming copies and multiply-adds; the
// provider's own product at 2048 x 768 x 2048 is what other products are measured against.
//
// usage: cpu_bench [--benchmark_filter=..] [--benchmark_repetitions=5 --benchmark_report_aggregates_only=true]
//   OMP_NUM_THREADS sets the threads.
#include <benchmark/benchmark.h>

#include <Eigen/Core>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "accrete/cpu/backend.hpp"
#include "accrete/tensor/tensor.hpp"

namespace ac = accrete;
using ac::bfloat16;
using ac::index_t;
using ac::store;
template <class T>
using matrix = ac::tensor<T, 2>;
/// What T's sums, streams and logits are held in.
template <class T>
using real = typename ac::cpu::backend<T>::real;
template <class T>
using logit = typename ac::cpu::backend<T>::logit;

namespace {

// A step of 8 documents of 256 tokens. Two sets of sizes: those of the step that speed is stated for, and those
// of the small pretrained teacher.
constexpr index_t tokens = 2048;
constexpr index_t document = 256;

template <class T>
matrix<T> numbers(index_t rows, index_t columns, float size = 1.0F) {
  matrix<T> m({rows, columns});
  std::uint64_t state = 42;
  for (index_t i = 0; i < m.size(); ++i) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    m.data()[i] = T(size * (float(state >> 40) / float(1 << 23) - 1.0F));
  }
  return m;
}

void count(benchmark::State& state, double operations, double bytes) {
  using benchmark::Counter;
  auto const rate = Counter::kIsIterationInvariantRate;
  if (operations > 0) state.counters["flops"] = Counter(operations, rate, Counter::kIs1000);
  if (bytes > 0) state.counters["bytes"] = Counter(bytes, rate, Counter::kIs1000);
  if (operations > 0 && bytes > 0) state.counters["flops_per_byte"] = operations / bytes;
}

template <class T>
ac::cpu::backend<T> const& context() {
  static ac::cpu::backend<T> const ctx;
  return ctx;
}

// --- The two roofs -------------------------------------------------------------------------------------------

/// Streaming from memory to memory: what everything without reuse is bound by.
void bm_roof_copy(benchmark::State& state) {
  constexpr index_t n = index_t(1) << 26;  // 256 MiB, twice: past every cache
  auto const a = numbers<float>(1, n);
  matrix<float> b({1, n});
  for (auto _ : state) copy(context<float>(), a.view(), b.view());
  count(state, 0, 8.0 * double(n));
}
BENCHMARK(bm_roof_copy)->UseRealTime()->Unit(benchmark::kMillisecond);

/// Multiply-adds that wait for nothing: as many chains as hide their latency, in the widest registers.
void bm_roof_fma(benchmark::State& state) {
  constexpr int lanes = 192, rounds = 1 << 18;
  int const threads = context<float>().threads();
  matrix<float> sums({threads, lanes});
  for (auto _ : state) {
    ac::cpu::for_parts(threads, threads, [&](index_t part) {
      Eigen::Array<float, lanes, 1> chain = Eigen::Array<float, lanes, 1>::Zero();
      for (int r = 0; r < rounds; ++r) chain = chain * 0.999F + 1.0F;
      std::copy(chain.data(), chain.data() + lanes, sums.view().row(part));
    });
    benchmark::DoNotOptimize(sums.data());
  }
  count(state, 2.0 * lanes * rounds * threads, 0);
}
BENCHMARK(bm_roof_fma)->UseRealTime()->Unit(benchmark::kMillisecond);

// --- Products ------------------------------------------------------------------------------------------------

template <class T>
void bm_gemm(benchmark::State& state) {
  auto const a = numbers<T>(2048, 768);
  auto const b = numbers<T>(768, 2048);
  matrix<T> c({2048, 2048});
  for (auto _ : state) {
    using ac::cpu::operand;
    ac::cpu::backend<T>::gemm::template multiply<T>(context<T>().threads(), operand::as_is, operand::as_is,
                                                    store::replace, a.view(), b.view(), c.view());
  }
  count(state, 2.0 * 2048 * 768 * 2048, sizeof(T) * (4.0 * 2048 * 768 + 2048.0 * 2048));
}
BENCHMARK(bm_gemm<float>)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(bm_gemm<bfloat16>)->UseRealTime()->Unit(benchmark::kMillisecond);

/// range: tokens, in, out.
template <class T>
void bm_linear(benchmark::State& state) {
  index_t const t = state.range(0), in = state.range(1), out = state.range(2);
  auto const x = numbers<T>(t, in), w = numbers<T>(out, in);
  matrix<T> y({t, out});
  for (auto _ : state) linear(context<T>(), x, w, y.view(), store::replace);
  count(state, 2.0 * double(t * in * out), sizeof(T) * double(t * in + in * out + t * out));
}
template <class T>
void bm_linear_backward_input(benchmark::State& state) {
  index_t const t = state.range(0), in = state.range(1), out = state.range(2);
  auto const dy = numbers<T>(t, out), w = numbers<T>(out, in);
  matrix<T> dx({t, in});
  for (auto _ : state) linear_backward_input(context<T>(), dy, w, dx.view(), store::replace);
  count(state, 2.0 * double(t * in * out), sizeof(T) * double(t * in + in * out + t * out));
}
template <class T>
void bm_linear_backward_weight(benchmark::State& state) {
  index_t const t = state.range(0), in = state.range(1), out = state.range(2);
  auto const dy = numbers<T>(t, out), x = numbers<T>(t, in);
  matrix<real<T>> dw({out, in});
  for (auto _ : state) linear_backward_weight(context<T>(), dy, x, dw, store::add);
  count(state, 2.0 * double(t * in * out),
        sizeof(T) * double(t * in + t * out) + 2.0 * sizeof(real<T>) * double(in * out));
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
BENCHMARK(bm_linear<float>)->Apply(linear_sizes);
BENCHMARK(bm_linear_backward_input<float>)->Apply(linear_sizes);
BENCHMARK(bm_linear_backward_weight<float>)->Apply(linear_sizes);
BENCHMARK(bm_linear<bfloat16>)->Apply(linear_sizes);
BENCHMARK(bm_linear_backward_input<bfloat16>)->Apply(linear_sizes);
BENCHMARK(bm_linear_backward_weight<bfloat16>)->Apply(linear_sizes);

// --- Attention -----------------------------------------------------------------------------------------------

/// 12 query and 4 key/value heads of 64; range: length of the documents, which fill 2048 tokens or are alone.
template <class T>
struct attention_operands {
  explicit attention_operands(index_t length) : all((std::max)(tokens, length)) {
    for (index_t t = 0; t <= all; t += length) offsets.push_back(t);
  }
  [[nodiscard]] ac::view<index_t const, 1> documents() const {
    return {offsets.data(), {index_t(offsets.size())}};
  }
  /// Scores of the causal half only.
  [[nodiscard]] double operations_per_product() const {
    double const length = double(offsets[1]);
    return 2.0 * double(all) * (length + 1) / 2 * 768;
  }
  index_t all;
  ac::attention_shape shape{12, 4, 64, 0.125};
  std::vector<index_t> offsets;
  matrix<T> q = numbers<T>(all, 768), k = numbers<T>(all, 256), v = numbers<T>(all, 256), out{{all, 768}};
  matrix<real<T>> log_sum_exp{{all, 12}};
};
template <class T>
void bm_attention(benchmark::State& state) {
  attention_operands<T> a(state.range(0));
  for (auto _ : state) attention(context<T>(), a.q, a.k, a.v, a.documents(), a.shape, a.out, a.log_sum_exp);
  count(state, 2 * a.operations_per_product(), sizeof(T) * double(a.all) * (2 * 768 + 2 * 256));
}
template <class T>
void bm_attention_backward(benchmark::State& state) {
  attention_operands<T> a(state.range(0));
  attention(context<T>(), a.q, a.k, a.v, a.documents(), a.shape, a.out, a.log_sum_exp);
  auto const dout = numbers<T>(a.all, 768);
  matrix<T> dq({a.all, 768}), dk({a.all, 256}), dv({a.all, 256});
  for (auto _ : state) {
    attention_backward(context<T>(), a.q, a.k, a.v, a.documents(), a.shape, a.out, a.log_sum_exp, dout, dq, dk,
                       dv);
  }
  count(state, 5 * a.operations_per_product(), sizeof(T) * double(a.all) * (4 * 768 + 4 * 256));
}
void attention_lengths(benchmark::internal::Benchmark* b) {
  b->Arg(document)->Arg(tokens)->Arg(8192)->ArgName("length")->UseRealTime()->Unit(benchmark::kMillisecond);
}
BENCHMARK(bm_attention<float>)->Apply(attention_lengths);
BENCHMARK(bm_attention_backward<float>)->Apply(attention_lengths);
BENCHMARK(bm_attention<bfloat16>)->Apply(attention_lengths);
BENCHMARK(bm_attention_backward<bfloat16>)->Apply(attention_lengths);

// --- Losses --------------------------------------------------------------------------------------------------

/// range: rows, vocabulary, temperature x 10.
template <class T>
void bm_distillation_loss(benchmark::State& state) {
  index_t const rows = state.range(0), vocabulary = state.range(1);
  auto const teacher = numbers<logit<T>>(rows, vocabulary, 10);
  auto student = numbers<logit<T>>(rows, vocabulary, 10);
  matrix<T> gradient({rows, vocabulary});
  std::vector<std::int32_t> const targets(std::size_t(rows), 7);
  std::array<double, 2> sums{};
  ac::distillation_weights const weights{double(state.range(2)) / 10, 0.7, 0.3, 1e-3};
  for (auto _ : state) {
    distillation_loss(context<T>(), teacher, student, gradient, {targets.data(), {rows}}, weights,
                      {sums.data(), {2}});
  }
  count(state, 0, (2.0 * sizeof(logit<T>) + sizeof(T)) * double(rows * vocabulary));
}
void loss_sizes(benchmark::internal::Benchmark* b) {
  b->Args({256, 49152, 10})
      ->Args({256, 49152, 20})
      ->Args({256, 151936, 10})
      ->ArgNames({"rows", "vocabulary", "tau_x10"})
      ->UseRealTime()
      ->Unit(benchmark::kMillisecond);
}
BENCHMARK(bm_distillation_loss<float>)->Apply(loss_sizes);
BENCHMARK(bm_distillation_loss<bfloat16>)->Apply(loss_sizes);

void bm_cross_entropy(benchmark::State& state) {
  index_t const rows = state.range(0), vocabulary = state.range(1);
  auto const logits = numbers<float>(rows, vocabulary, 10);
  std::vector<std::int32_t> const targets(std::size_t(rows), 7);
  double sum = 0;
  for (auto _ : state) cross_entropy(context<float>(), logits, {targets.data(), {rows}}, {&sum, {1}});
  count(state, 0, sizeof(float) * double(rows * vocabulary));
}
BENCHMARK(bm_cross_entropy)->Args({256, 49152})->UseRealTime()->Unit(benchmark::kMillisecond);

// --- What streams --------------------------------------------------------------------------------------------

/// The norm that a sublayer reads, with the sum before it.
template <class T>
void bm_add_rms_norm(benchmark::State& state) {
  using C = real<T>;
  auto const a = numbers<C>(tokens, 768), b = numbers<C>(tokens, 768), gain = numbers<C>(1, 768);
  matrix<C> sum({tokens, 768}), rstd({1, tokens});
  matrix<T> y({tokens, 768});
  for (auto _ : state)
    add_rms_norm(context<T>(), a, b, sum, gain.view().flat(), 1e-5, y.view(), rstd.view().flat());
  count(state, 0, (3.0 * sizeof(C) + sizeof(T)) * tokens * 768);
}
BENCHMARK(bm_add_rms_norm<float>)->UseRealTime()->Unit(benchmark::kMicrosecond);
BENCHMARK(bm_add_rms_norm<bfloat16>)->UseRealTime()->Unit(benchmark::kMicrosecond);

void bm_rms_norm_backward(benchmark::State& state) {
  auto const x = numbers<float>(tokens, 768), dy = numbers<float>(tokens, 768), gain = numbers<float>(1, 768),
             rstd = numbers<float>(1, tokens);
  matrix<float> dx({tokens, 768}), dgain({1, 768});
  for (auto _ : state) {
    rms_norm_backward(context<float>(), x, gain.view().flat(), rstd.view().flat(), dy, dx, dgain.view().flat(),
                      store::add);
  }
  count(state, 0, 4.0 * sizeof(float) * tokens * 768);
}
BENCHMARK(bm_rms_norm_backward)->UseRealTime()->Unit(benchmark::kMicrosecond);

template <class T>
void bm_rotary(benchmark::State& state) {
  auto x = numbers<T>(tokens, 1024);
  matrix<real<T>> cosines({document, 32}), sines({document, 32});
  std::vector<double> frequencies;
  for (int i = 0; i < 32; ++i) frequencies.push_back(std::pow(1e5, -i / 32.0));
  rotary_table(context<T>(), {frequencies.data(), {32}}, cosines, sines);
  std::vector<std::int32_t> positions;
  for (index_t t = 0; t < tokens; ++t) positions.push_back(std::int32_t(t % document));
  for (auto _ : state) {
    rotary(context<T>(), x, {positions.data(), {tokens}}, cosines, sines, ac::rotation::forward);
  }
  count(state, 0, 2.0 * sizeof(T) * tokens * 1024);
}
BENCHMARK(bm_rotary<float>)->UseRealTime()->Unit(benchmark::kMicrosecond);
BENCHMARK(bm_rotary<bfloat16>)->UseRealTime()->Unit(benchmark::kMicrosecond);

template <class T>
void bm_swiglu(benchmark::State& state) {
  auto const gate_up = numbers<T>(tokens, 4096, 4);
  matrix<T> out({tokens, 2048});
  for (auto _ : state) swiglu(context<T>(), gate_up, out);
  count(state, 0, 3.0 * sizeof(T) * tokens * 2048);
}
BENCHMARK(bm_swiglu<float>)->UseRealTime()->Unit(benchmark::kMicrosecond);
BENCHMARK(bm_swiglu<bfloat16>)->UseRealTime()->Unit(benchmark::kMicrosecond);

template <class T>
void bm_swiglu_backward(benchmark::State& state) {
  auto const gate_up = numbers<T>(tokens, 4096, 4), dout = numbers<T>(tokens, 2048);
  matrix<T> dgate_up({tokens, 4096});
  for (auto _ : state) swiglu_backward(context<T>(), gate_up, dout, dgate_up);
  count(state, 0, 5.0 * sizeof(T) * tokens * 2048);
}
BENCHMARK(bm_swiglu_backward<float>)->UseRealTime()->Unit(benchmark::kMicrosecond);
BENCHMARK(bm_swiglu_backward<bfloat16>)->UseRealTime()->Unit(benchmark::kMicrosecond);

constexpr index_t parameters = 20'000'000;

template <class T>
void bm_adamw(benchmark::State& state) {
  auto p = numbers<float>(1, parameters);
  auto const g = numbers<float>(1, parameters);
  matrix<float> m({1, parameters}), v({1, parameters});
  matrix<T> stored({1, std::is_same_v<T, float> ? 0 : parameters});
  for (auto _ : state) {
    adamw(context<T>(), p.view().flat(), g.view().flat(), m.view().flat(), v.view().flat(), {1e-4},
          stored.view().flat());
  }
  count(state, 0, (7.0 * sizeof(float) + (stored.empty() ? 0 : sizeof(T))) * parameters);
}
BENCHMARK(bm_adamw<float>)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(bm_adamw<bfloat16>)->UseRealTime()->Unit(benchmark::kMillisecond);

void bm_sum_of_squares(benchmark::State& state) {
  auto const g = numbers<float>(1, parameters);
  for (auto _ : state) benchmark::DoNotOptimize(sum_of_squares(context<float>(), g.view().flat()));
  count(state, 0, sizeof(float) * double(parameters));
}
BENCHMARK(bm_sum_of_squares)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
