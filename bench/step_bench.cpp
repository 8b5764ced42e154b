// One training step of the size that speed is stated for: teacher and student forward, KD and CE, backward,
// clip, AdamW on 2,048 tokens as 8 x 256; width 768, 9 student and 12 teacher layers, 12/4 heads of 64, MLP
// 2048, f32. The rate counts useful operations only. `of_gemm` is that rate over the provider's own product at
// 2048 x 768 x 2048, timed right before and after in the same run.
//
// usage: step_bench [--benchmark_filter=..]     OMP_NUM_THREADS sets the threads; a step is about 1.5 TFLOP
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>

#include "accrete/cpu/backend.hpp"
#include "accrete/data/corpus.hpp"
#include "accrete/growth/joint.hpp"
#include "accrete/model/student.hpp"
#include "accrete/placement/post.hpp"
#include "accrete/placement/pre.hpp"
#include "accrete/train/trainer.hpp"

namespace ac = accrete;
using ac::index_t;
using backend = ac::cpu::backend<float>;

namespace {

/// A model of the wanted size with random weights, as if it came from a file.
struct random_source final : ac::io::weight_source {
  explicit random_source(index_t vocabulary) {
    config.architecture = "llama";
    config.hidden_size = 768;
    config.num_hidden_layers = 12;
    config.num_attention_heads = 12;
    config.num_key_value_heads = 4;
    config.head_dim = 64;
    config.intermediate_size = 2048;
    config.vocab_size = vocabulary;
    config.max_position_embeddings = 256;
  }
  bool has(std::string_view) const override { return true; }
  ac::io::tensor_shape shape(std::string_view) const override { return {}; }
  void read_rows(std::string_view name, index_t first, ac::view<float, 2> out) const override {
    bool const gain = name.find("norm") != std::string_view::npos;
    ac::random_stream const stream({1}, name);
    for (index_t i = 0; i < out.rows(); ++i)
      for (index_t j = 0; j < out.columns(); ++j)
        out(i, j) =
            gain ? 1.0F : 0.04F * float(stream.uniform(std::uint64_t((first + i) * out.columns() + j)) - 0.5);
  }
  std::string identity() const override { return "random"; }
};

double seconds_of(auto&& work) {
  auto const start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Operations a second of the provider's own product, the best of a few.
double gemm_rate(backend const& ctx) {
  ac::tensor<float, 2> a({2048, 768});
  ac::tensor<float, 2> b({768, 2048});
  ac::tensor<float, 2> c({2048, 2048});
  std::fill(a.data(), a.data() + a.size(), 0.5F);
  std::fill(b.data(), b.data() + b.size(), 0.25F);
  double best = 1e9;
  for (int i = 0; i < 7; ++i) {
    best = std::min(best, seconds_of([&] {
                      using ac::cpu::operand;
                      backend::gemm::multiply<float>(ctx.threads(), operand::as_is, operand::as_is,
                                                     ac::store::replace, a.view(), b.view(), c.view());
                    }));
  }
  return 2.0 * 2048 * 768 * 2048 / best;
}

template <class Placement>
void bm_step(benchmark::State& state) {
  auto const vocabulary = index_t(state.range(0));
  backend const ctx;
  ac::teacher<backend> teacher(ctx, random_source(vocabulary), std::nullopt, 256);
  ac::data::corpus text;
  ac::random_stream const stream({2}, "text");
  std::vector<std::int32_t> document(256);
  for (std::uint64_t d = 0; d < 64; ++d) {
    for (std::uint64_t i = 0; i < document.size(); ++i)
      document[i] = std::int32_t(stream.below(d * 256 + i, std::uint64_t(vocabulary)));
    text.append(document, {ac::data::cutting::first, 256});
  }
  ac::recipe const recipe{.steps = 8, .batch_tokens = 2048};
  ac::student<Placement, ac::growth::joint<3, 3>, backend> student(teacher, ac::seed{42});
  ac::distillation::teacher_states<backend> states(teacher, recipe.batch_tokens);
  ac::train::run_data<backend> const data{&text, ac::data::whole_shard(text, {1}), &states, &text, &states};
  ac::train::trainer<backend> trainer(student, teacher, data, recipe);
  trainer.begin_phase(0);
  index_t step = 0;
  ++step;
  trainer.update(0, step, step, 1e-4);  // warm
  double operations = 0;
  double seconds = 0;
  double gemm = 0;
  for (auto _ : state) {
    state.PauseTiming();
    gemm = std::max(gemm, gemm_rate(ctx));
    state.ResumeTiming();
    ++step;
    auto const r = trainer.update(0, step, step, 1e-4);
    operations += r.operations;
    seconds += r.seconds;
  }
  gemm = std::max(gemm, gemm_rate(ctx));
  state.counters["flops"] =
      benchmark::Counter(operations / seconds, benchmark::Counter::kDefaults, benchmark::Counter::kIs1000);
  state.counters["gemm"] = benchmark::Counter(gemm, benchmark::Counter::kDefaults, benchmark::Counter::kIs1000);
  state.counters["of_gemm"] = operations / seconds / gemm;
  state.counters["tokens_per_second"] = 2048.0 * double(state.iterations()) / seconds;
  state.counters["activations_MiB"] = double(trainer.step_memory().memory.capacity()) / double(1 << 20);
}

BENCHMARK(bm_step<ac::placement::pre>)
    ->Name("step/pre/vocabulary")
    ->Arg(32768)
    ->Iterations(3)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK(bm_step<ac::placement::post>)
    ->Name("step/post/vocabulary")
    ->Arg(32768)
    ->Iterations(2)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

}  // namespace

BENCHMARK_MAIN();
