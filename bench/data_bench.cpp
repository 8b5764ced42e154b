// How fast text is read and tokenized, on one core: bytes_per_second is bytes of text.
//
// usage: data_bench TOKENIZER.gguf TEXT.. [--benchmark_..]
//   TEXT: files and folders as data::open takes them.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <vector>

#include "accrete/data/document_order.hpp"
#include "accrete/data/gguf_tokenizer.hpp"
#include "accrete/data/open.hpp"

namespace ac = accrete;

namespace {

std::int64_t size_of(ac::data::text_set const& texts) {
  std::int64_t bytes = 0;
  for (auto const& document : texts.documents) bytes += std::int64_t(document.text.size());
  return bytes;
}

// Files to tokens: what a run does before its first step. The word cache starts empty every time.
void bm_open(benchmark::State& state, ac::data::tokenizer_spec const& spec,
             std::vector<std::filesystem::path> const& paths, std::int64_t bytes) {
  ac::index_t tokens = 0;
  for (auto _ : state) {
    state.PauseTiming();
    ac::data::tokenizer const words(spec);
    state.ResumeTiming();
    tokens = ac::data::open(paths, words, {{ac::data::cutting::windows, 256}}).num_tokens();
  }
  state.SetBytesProcessed(state.iterations() * bytes);
  state.counters["tokens"] = double(tokens);
}

void bm_encode(benchmark::State& state, ac::data::tokenizer const& words, ac::data::text_set const& texts) {
  std::vector<std::int32_t> ids;
  for (auto _ : state)
    for (auto const& document : texts.documents) {
      ids.clear();
      words.encode(document.text, ids);
      benchmark::DoNotOptimize(ids.data());
    }
  state.SetBytesProcessed(state.iterations() * size_of(texts));
}

void bm_next_batch(benchmark::State& state, ac::data::corpus const& text) {
  ac::data::document_iterator documents(text, whole_shard(text, ac::seed{42}), ac::seed{42});
  ac::data::ragged_batch batch;
  batch.reserve(2048, 1024);
  std::int64_t tokens = 0;
  for (auto _ : state) {
    documents.next_batch(batch, 2048);
    tokens += batch.num_tokens();
  }
  state.SetItemsProcessed(tokens);
}

}  // namespace

int main(int argc, char** argv) {
#ifndef NDEBUG
  std::fprintf(stderr, "data_bench: built with assertions; build with NDEBUG to measure\n");
  return 1;
#endif
  benchmark::Initialize(&argc, argv);
  if (argc < 3) {
    std::fprintf(stderr, "usage: data_bench TOKENIZER.gguf TEXT.. [--benchmark_..]\n");
    return 1;
  }
  try {
    std::vector<std::filesystem::path> const paths(argv + 2, argv + argc);
    auto const spec = ac::data::tokenizer_spec_from_gguf(ac::io::gguf_file(argv[1]));
    ac::data::tokenizer const words(spec);
    auto const texts = ac::data::read_text(paths);
    auto const corpus = ac::data::open(paths, words, {{ac::data::cutting::windows, 256}});
    for (auto const& document : texts.documents)  // nothing is timed that is wrong
      if (words.decode(words.encode(document.text)) != document.text)
        std::fprintf(stderr, "data_bench: '%s' holds bytes without a token\n", document.name.c_str());
    auto const bytes = size_of(texts);
    benchmark::RegisterBenchmark("bm_open/files_to_tokens", [&](benchmark::State& s) {
      bm_open(s, spec, paths, bytes);
    })->Unit(benchmark::kMillisecond);
    benchmark::RegisterBenchmark("bm_encode/warm_cache", [&](benchmark::State& s) {
      bm_encode(s, words, texts);
    })->Unit(benchmark::kMillisecond);
    benchmark::RegisterBenchmark("bm_next_batch/2048", [&](benchmark::State& s) { bm_next_batch(s, corpus); });
    benchmark::RunSpecifiedBenchmarks();
  } catch (ac::error const& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
  return 0;
}
