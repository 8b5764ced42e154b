// Cross-entropy and perplexity of a model on a text, as one line of JSON.
//   evaluate --model SmolLM2-135M-Instruct.Q4_1.gguf --text notes.txt
#include <accrete/accrete.hpp>
#include <algorithm>
#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "options.hpp"

namespace ac = accrete;

int main(int argc, char** argv) {
  std::string model;
  std::vector<std::filesystem::path> text;
  std::string ids;
  std::string cut = "first";
  ac::index_t length = 2048;
  ac::index_t batch_tokens = 512;
  int threads = 0;
  CLI::App app{
      "Prints {tokens, targets, ce, perplexity} of a model. Each file is a document, cut at --length tokens; "
      "ce is in nats "
      "per target token, over all documents; perplexity is exp(ce)."};
  app.add_option("--model", model, "a GGUF file or a Hugging Face directory")->required();
  auto* from = app.add_option_group("input", "one of");
  from->add_option("--text", text, "files or folders of text, or shards of it");
  from->add_option("--ids", ids, "a file of token ids, one document a line");
  from->require_option(1);
  app.add_option("--length", length, "most tokens of a document")
      ->capture_default_str()
      ->check(CLI::Range(2, 1 << 20));
  app.add_option("--cut", cut, "what becomes of longer ones: first, windows")
      ->capture_default_str()
      ->check(CLI::IsMember({"first", "windows"}));
  app.add_option("--batch-tokens", batch_tokens, "tokens at a time")
      ->capture_default_str()
      ->check(CLI::Range(2, 1 << 20));
  app.add_option("--threads", threads, "0: all")->capture_default_str()->check(CLI::Range(0, 1024));
  CLI11_PARSE(app, argc, argv);
  return options::guarded([&] {
    using backend = ac::cpu::backend<float>;
    auto teacher = ac::load_teacher<backend>(model, threads > 0 ? backend(threads) : backend(), length);
    ac::data::cutting const cutting{cut == "first" ? ac::data::cutting::first : ac::data::cutting::windows,
                                    std::min(length, teacher.max_positions())};
    auto const corpus = ids.empty() ? ac::data::open(text, teacher.tokenizer(), {cutting})
                                    : ac::data::open_ids(ids, teacher.config().vocab_size, {cutting});
    auto const sums = ac::train::cross_entropy_of(teacher, corpus, batch_tokens);
    auto const ce = sums.mean_ce();
    if (!std::isfinite(ce))
      throw ac::numeric_error("evaluate", "a cross-entropy of " + std::to_string(ce), "a finite number",
                              "are the weights of " + model + " whole?");
    std::printf("{\"tokens\": %td, \"targets\": %td, \"ce\": %.6f, \"perplexity\": %.6g}\n",
                corpus.num_tokens(), sums.targets, ce, std::exp(std::min(ce, 700.0)));
    return 0;
  });
}
