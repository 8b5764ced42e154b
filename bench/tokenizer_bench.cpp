// Encodes the texts of a .jsonl file one after the other on one thread and prints bytes and seconds. With --ids
// the tokens go into a file, for comparing: for each text their number and the ids, as little-endian 32-bit
// integers. bench/tokenizer_peer.py runs it beside the Python package `tokenizers`.
//
// usage: tokenizer_bench TOKENIZER TEXTS.jsonl [--rounds N] [--as-text] [--ids FILE]
//   TOKENIZER: a GGUF file, a tokenizer.json or its folder.
//   --as-text: special tokens in a text are characters.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "accrete/data/gguf_tokenizer.hpp"
#include "accrete/data/hf_tokenizer.hpp"
#include "accrete/data/text_files.hpp"
#include "accrete/data/tokenizer.hpp"

namespace ac = accrete;

namespace {
double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
}  // namespace

int main(int argc, char** argv) {
#ifndef NDEBUG
  std::fprintf(stderr, "tokenizer_bench: built with assertions; build with NDEBUG to measure\n");
  return 1;
#endif
  if (argc < 3) {
    std::fprintf(stderr,
                 "usage: tokenizer_bench TOKENIZER TEXTS.jsonl [--rounds N] [--as-text] [--ids FILE]\n");
    return 1;
  }
  try {
    std::filesystem::path const file = argv[1];
    int rounds = 1;
    std::string ids_file;
    auto how = ac::data::special::parse;
    for (int i = 3; i < argc; ++i) {
      std::string_view const flag = argv[i];
      if (flag == "--as-text") how = ac::data::special::as_text;
      if (flag == "--rounds" && i + 1 < argc) rounds = std::max(1, std::atoi(argv[++i]));
      if (flag == "--ids" && i + 1 < argc) ids_file = argv[++i];
    }
    double const start = seconds();
    ac::data::tokenizer const words(file.extension() == ".gguf"
                                        ? ac::data::tokenizer_spec_from_gguf(ac::io::gguf_file(file))
                                        : ac::data::tokenizer_spec_from_hf(file));
    double const loaded = seconds() - start;
    auto const texts = ac::data::read_text(argv[2]);
    std::int64_t bytes = 0, tokens = 0, unequal = 0;
    for (auto const& d : texts.documents) bytes += std::int64_t(d.text.size());
    std::vector<std::int32_t> ids;
    double best = 1e300;
    for (int round = 0; round < rounds; ++round) {
      tokens = 0;
      double const begin = seconds();
      for (auto const& d : texts.documents) {
        ids.clear();
        words.encode(d.text, ids, how);
        tokens += std::int64_t(ids.size());
      }
      best = std::min(best, seconds() - begin);
    }
    std::ofstream out;
    if (!ids_file.empty()) out.open(ids_file, std::ios::binary);
    for (auto const& d : texts.documents) {
      ids.clear();
      words.encode(d.text, ids, how);
      unequal += words.decode(ids) != d.text;
      auto const count = std::int32_t(ids.size());
      out.write(reinterpret_cast<char const*>(&count), sizeof count);
      out.write(reinterpret_cast<char const*>(ids.data()), std::streamsize(ids.size() * sizeof ids[0]));
    }
    if (!ids_file.empty() && !out.flush())
      throw ac::io_error("tokenizer_bench " + ids_file, "no room", "all written");
    std::printf(
        "{\"bytes\": %td, \"tokens\": %td, \"texts\": %zu, \"load_seconds\": %.3f, \"seconds\": %.6f, "
        "\"mb_per_second\": %.2f, \"changed_by_decode\": %td}\n",
        std::ptrdiff_t(bytes), std::ptrdiff_t(tokens), texts.documents.size(), loaded, best,
        double(bytes) / best / 1e6, std::ptrdiff_t(unequal));
  } catch (ac::error const& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
  return 0;
}
