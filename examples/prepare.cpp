// Text to token shards, once, so that training starts at once however much there is.
//   prepare --tokenizer Qwen3-0.6B/ --text fineweb/ --length 2048 --out shards/
#include <accrete/core/error.hpp>
#include <accrete/core/format.hpp>
#include <accrete/data/load_tokenizer.hpp>
#include <accrete/data/prepare.hpp>
#include <accrete/io/writable_folder.hpp>
#include <accrete/train/progress.hpp>
#include <accrete/train/stop_signal.hpp>
#include <algorithm>
#include <chrono>
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "options.hpp"

namespace ac = accrete;

namespace {

/// One line: how much of the text has been read, what became of it, how fast, how long still.
class prepare_line {
 public:
  void operator()(ac::data::prepare_progress const& p) {
    if (!begun_) first_ = p.bytes;
    if (begun_ && !p.finished && !line_.is_due()) return;
    begun_ = true;
    double const seconds = std::chrono::duration<double>(clock::now() - start_).count();
    double const rate = double(p.bytes - std::min(first_, p.bytes)) / std::max(seconds, 1e-3);
    double const share = p.all_bytes > 0 ? 100.0 * double(p.bytes) / double(p.all_bytes) : 0.0;
    line_.show({{0, fmt::format("{:.1f}%", p.finished ? 100.0 : std::min(share, 99.9))},
                {4, fmt::format("{} texts", p.texts)},
                {0, fmt::format("{:.1f} M tokens", double(p.tokens) * 1e-6)},
                {2, fmt::format("{} shards", p.shards)},
                {1, fmt::format("{:.1f} MB/s", rate * 1e-6)},
                {3, fmt::format("{:.1f} GiB", double(ac::train::peak_resident_bytes()) / double(1 << 30))},
                {0, p.finished ? ac::train::duration_text(seconds)
                    : rate > 0 ? "left " + ac::train::duration_text(
                                               double(p.all_bytes - std::min(p.bytes, p.all_bytes)) / rate)
                               : std::string("starting")}},
               p.finished);
  }
  void note(std::string const& text) { line_.note(text); }

 private:
  using clock = std::chrono::steady_clock;
  ac::train::live_line line_;
  clock::time_point start_ = clock::now();
  std::uint64_t first_ = 0;
  bool begun_ = false;
};

}  // namespace

int main(int argc, char** argv) {
  std::filesystem::path tokenizer;
  std::vector<std::filesystem::path> text;
  std::filesystem::path out = "shards";
  ac::data::prepare_options options;
  std::string cut = options.cut.name();
  int threads = 0;
  CLI::App app{
      "Tokenizes text and writes it as shards (safetensors), which training maps instead of reading.\n"
      "It needs the memory of one shard, whatever the text's size. Stopped or killed, the same command goes "
      "on\n"
      "where it was, and the shards are those of a run that went through; they do not depend on --threads.\n"
      "Train from them with --text OUT and the same --length and --cut."};
  app.add_option(
         "--tokenizer,--teacher", tokenizer,
         "a GGUF file, a Hugging Face directory or its tokenizer.json: the teacher's, its weights are not read")
      ->required();
  app.add_option("--text", text,
                 "files or folders of .txt, .md, .rst, .pod (a file is a text), .jsonl, .ndjson (a line is "
                 "one), also packed "
                 "as .gz or .zst")
      ->required();
  app.add_option("--field", options.format.field, "the text's key in a line of JSON")->capture_default_str();
  app.add_option("--out", out, "a folder for the shards of this command alone")->capture_default_str();
  app.add_option("--length", options.cut.max_length, "most tokens of a document")
      ->capture_default_str()
      ->check(CLI::Range(2, 1 << 20));
  app.add_option("--cut", cut, "first: a text's first tokens (the paper); windows: all of it, in pieces")
      ->capture_default_str()
      ->check(CLI::IsMember({"first", "windows"}));
  app.add_option("--shard-tokens", options.shard_tokens,
                 "tokens after which a shard is closed, at a text's end")
      ->capture_default_str()
      ->check(CLI::Range(ac::index_t(1), ac::index_t(1) << 31));
  app.add_option("--threads", threads, "0: all")->capture_default_str()->check(CLI::Range(0, 1024));
  CLI11_PARSE(app, argc, argv);
  return options::guarded([&] {
    options.cut.how = cut == "first" ? ac::data::cutting::first : ac::data::cutting::windows;
    options.threads = threads > 0 ? threads : int(std::max(1u, std::thread::hardware_concurrency()));
    ac::train::stop_signal stop;
    auto const words = ac::data::load_tokenizer(tokenizer);
    ac::io::require_writable_folder(out);
    prepare_line line;
    auto const done = ac::data::prepare(text, words, out, options, [&](ac::data::prepare_progress const& p) {
      line(p);
      return !ac::train::stop_signal::stop_wanted();
    });
    if (done.resumed > 0)
      line.note(fmt::format("{} shards were there{}", done.resumed,
                            done.resumed == done.shards && done.finished ? ": nothing to do" : ""));
    if (!done.finished) {
      line.note(
          fmt::format("stopped with {} shards below {}; the same command goes on", done.shards, out.string()));
      return options::stopped();
    }
    std::printf(
        "{\"texts\": %td, \"empty\": %td, \"dropped\": %td, \"documents\": %td, \"tokens\": %td, \"shards\": "
        "%td}\n",
        done.texts, done.empty, done.dropped, done.documents, done.tokens, done.shards);
    return 0;
  });
}
