// Lets a model read a prompt and go on writing.
//   generate --model SmolLM2-135M-Instruct.Q4_1.gguf --prompt "The history of the steam engine"
#include <accrete/accrete.hpp>
#include <algorithm>
#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>
#include <vector>

#include "options.hpp"

namespace ac = accrete;

int main(int argc, char** argv) {
  std::string model;
  std::string prompt = "The history of the steam engine begins";
  ac::index_t count = 32;
  int threads = 0;
  ac::model::sampling how;
  CLI::App app{"Continues a prompt: greedily, or sampled with --temperature."};
  app.add_option("--model", model, "a GGUF file")->required();
  app.add_option("--prompt", prompt, "text to continue")->capture_default_str();
  app.add_option("--tokens", count, "most tokens to add")->capture_default_str()->check(CLI::Range(1, 4096));
  app.add_option("--temperature", how.temperature, "0: the most likely token")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 100.0));
  app.add_option("--top-k", how.top_k, "only the k most likely tokens; 0: all")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  app.add_option("--top-p", how.top_p, "only the most likely tokens that together reach p")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--seed", how.seed.value, "of the sampling")->capture_default_str();
  app.add_option("--threads", threads, "0: all")->capture_default_str()->check(CLI::Range(0, 1024));
  CLI11_PARSE(app, argc, argv);
  return options::guarded([&] {
    using backend = ac::cpu::backend<float>;
    auto teacher = ac::load_teacher<backend>(model, threads > 0 ? backend(threads) : backend());
    auto const& words = teacher.tokenizer();
    std::fputs(prompt.c_str(), stdout);
    std::vector<std::int32_t> ids;
    if (words.add_bos()) ids.push_back(words.bos());
    words.encode(prompt, ids);
    ac::model::generate(teacher, ids, count, how, [&](std::int32_t id) {
      auto const& ends = teacher.config().eos_token_ids;
      if (std::find(ends.begin(), ends.end(), id) != ends.end()) return;
      std::fputs(words.decode(std::span(&id, 1)).c_str(), stdout);
      std::fflush(stdout);
    });
    std::fputs("\n", stdout);
    return 0;
  });
}
