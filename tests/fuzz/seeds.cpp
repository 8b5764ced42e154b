// What the fuzzers begin with: sound files of every kind and a few that are nearly so. Writes them to FOLDER,
// one folder for each target.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "accrete/data/byte_alphabet.hpp"
#include "accrete/data/token_shard.hpp"
#include "accrete/io/ggml_type.hpp"
#include "accrete/io/safetensors_dtype.hpp"
#include "accrete/io/safetensors_writer.hpp"
#include "accrete/train/write_checkpoint.hpp"
#include "models.hpp"
#include "small_student.hpp"
#include "small_tokenizer.hpp"
#include "support/files.hpp"
#include "support/gguf_builder.hpp"
#include "support/model_files.hpp"
#include "support/packed.hpp"

namespace ac = accrete;
namespace fs = std::filesystem;

namespace {

/// Writes seeds of one target: FOLDER/TARGET/seed-NAME.
class writer {
 public:
  writer(fs::path const& folder, char const* target) : folder_(folder / target) {
    fs::create_directories(folder_);
  }
  void operator()(std::string const& name, std::string_view bytes) const {
    test::write_file(folder_ / ("seed-" + name), bytes);
  }

 private:
  fs::path folder_;
};

void add_tokenizer(test::gguf_builder& b, std::string const& split) {
  auto const list = [](std::vector<std::string> const& all) {
    std::string text;
    for (auto const& each : all) text += test::gguf_builder::text(each);
    return text;
  };
  std::vector<std::string> const tokens{"a", "b", "ab", "<|end|>", "\xC4\xA0"};
  std::vector<std::string> const merges{"a b"};
  b.string("tokenizer.ggml.model", "gpt2").string("tokenizer.ggml.pre", split);
  b.array("tokenizer.ggml.tokens", 8, tokens.size(), list(tokens));
  b.array("tokenizer.ggml.merges", 8, merges.size(), list(merges));
  b.array("tokenizer.ggml.token_type", 5, 5, test::bytes_of(std::vector<std::int32_t>{1, 1, 1, 4, 1}));
  b.u32("tokenizer.ggml.bos_token_id", 3).u32("tokenizer.ggml.eos_token_id", 3);
  b.u32("tokenizer.ggml.unknown_token_id", 0);
  b.entry("tokenizer.ggml.add_bos_token", 7, test::gguf_builder::raw(std::uint8_t(1)));
}

void write_gguf(fs::path const& folder) {
  writer const seed(folder, "gguf");
  for (auto const* const a : {"llama", "qwen2", "qwen3"}) {
    auto b = test::gguf_of(fuzz::tiny_model(a));
    b.alignment = 8;
    b.u32("general.alignment", 8);
    seed(std::string("model-") + a, b.build());
    add_tokenizer(b, a == std::string("llama") ? "llama-bpe" : "qwen2");
    seed(std::string("whole-") + a, b.build());
  }
  test::gguf_builder scaled = test::gguf_of(fuzz::tiny_model("llama"), {1.0f});
  seed("divisors", scaled.build());
  test::gguf_builder words;
  add_tokenizer(words, "gpt-2");
  seed("tokenizer", words.build());
  words.version = 2;
  seed("version-2", words.build());
  words.version = 3;
  words.array("tokenizer.ggml.tokens", 8, 5, std::string(8 * 5, '\0'));
  seed("no-text", words.build());
  test::gguf_builder half;  // a token that is half of a character
  add_tokenizer(half, "gpt-2");
  half.array("tokenizer.ggml.tokens", 8, 5,
             test::gguf_builder::text("a") + test::gguf_builder::text("b") + test::gguf_builder::text("ab") +
                 test::gguf_builder::text("\xC3") + test::gguf_builder::text("\xC4\xA0"));
  seed("half-a-character", half.build());
  for (auto const& layout : ac::io::ggml_layouts) {
    test::gguf_builder b;
    b.alignment = 8;
    b.u32("general.alignment", 8);
    b.tensor("t", layout.id, {layout.block, 2}, std::string(std::size_t(2) * layout.bytes, '\x11'));
    if (layout.id < 16 || layout.id == 30) seed(std::string("tensor-") + layout.name, b.build());
  }
  test::gguf_builder kinds;
  for (std::uint32_t kind = 0; kind < 13; ++kind)
    if (kind != 9)
      kinds.entry("k" + std::to_string(kind), kind,
                  std::string(8, '\0').substr(
                      0, kind == 8 ? 8 : ac::io::detail::fixed_size(ac::io::detail::gguf_kind(kind))));
  seed("kinds", kinds.build());
}

/// Numbers for a tensor of so many bytes.
std::string filling(std::size_t size) {
  std::string text(size, '\0');
  for (std::size_t i = 0; i < size; ++i) text[i] = char(i * 7 % 50);
  return text;
}

void write_safetensors(fs::path const& folder) {
  writer const seed(folder, "safetensors");
  auto const path = folder / "one";
  auto const made = [&](ac::io::safetensors_dtype dtype, std::vector<ac::index_t> const& shape, bool noted) {
    auto const size = ac::io::detail::tensor_bytes(dtype, shape).value_or(0);
    ac::io::safetensors_writer out(path);
    if (noted) out.metadata("format", "pt").metadata("note", "a \"quoted\" \xC2\xB1 one");
    out.declare("weight", dtype, shape).declare("none", ac::io::safetensors_dtype::u8, {0});
    auto const bytes = filling(size);
    if (size > 0) out.append("weight", std::as_bytes(std::span(bytes)));
    out.commit();
    return test::read_file(path);
  };
  using enum ac::io::safetensors_dtype;
  for (auto const dtype : {boolean, f4, u8, f8_e5m2, i16, f16, bf16, i32, f32, c64, f64, i64})
    seed(ac::io::name_of(dtype), made(dtype, {2, 4}, false));
  seed("noted", made(f32, {}, true));
  seed("vector", made(f32, {3}, true));
  auto const raw = [](std::string const& header, std::size_t bytes) {
    return test::gguf_builder::raw(std::uint64_t(header.size())) + header + filling(bytes);
  };
  seed("empty", raw("{}", 0));
  seed("padded", raw(R"({"a":{"dtype":"F16","shape":[1,2],"data_offsets":[0,4]}}     )", 4));
  seed(
      "overlap",
      raw(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})",
          6));
  seed("large", raw(R"({"a":{"dtype":"F64","shape":[4294967296,4294967296],"data_offsets":[0,8]}})", 8));
  fs::remove(path);
}

void write_index(fs::path const& folder) {
  writer const seed(folder, "index");
  auto const model =
      test::save_hf(folder / "model", fuzz::tiny_model("llama"), {.newer_rope = false, .shards = 3});
  auto const text = test::read_file(model / "model.safetensors.index.json");
  seed("sound", text);
  seed("with-metadata", R"({"metadata":{"total_size":1},)" + text.substr(1));
  seed("outside", R"({"weight_map":{"lm_head.weight":"../model-00001.safetensors"}})");
  seed("itself", R"({"weight_map":{"lm_head.weight":"model.safetensors.index.json"}})");
  seed("folder", R"({"weight_map":{"lm_head.weight":"."}})");
  seed("none", R"({"weight_map":{}})");
  seed("long-name", R"({"weight_map":{"lm_head.weight":")" + std::string(5000, 'm') + R"("}})");
  fs::remove_all(model);
}

void write_config(fs::path const& folder) {
  writer const seed(folder, "config");
  std::string const generation = std::string(1, '\0') + R"({"eos_token_id":[2,3],"bos_token_id":1})";
  for (auto const* const a : {"llama", "qwen2", "qwen3"}) {
    auto c = fuzz::tiny_config(a);
    seed(a, test::config_json(c));
    seed(std::string(a) + "-newer", test::config_json(c, {.newer_rope = true}) + generation);
    c.rotary = {ac::io::rotary_kind::llama3, 8.0, 1.0, 4.0, 100};
    seed(std::string(a) + "-llama3", test::config_json(c));
    seed(std::string(a) + "-llama3-newer", test::config_json(c, {.newer_rope = true}));
  }
  seed("student", fuzz::tiny_student_json() + generation);
  auto const llama = test::config_json(fuzz::tiny_config("llama"));
  auto const with = [&](std::string const& member) {
    return llama.substr(0, llama.size() - 1) + "," + member + "}";
  };
  seed("ids", with(R"("bos_token_id":1,"eos_token_id":[2,2147483647])"));
  seed("layer-types", with(R"("layer_types":["full_attention"],"partial_rotary_factor":1.0,"head_dim":2)"));
  seed("refused", with(R"("mlp_bias":true,"quantization_config":{})"));
  seed("sliding", with(R"("use_sliding_window":false,"layer_types":["sliding_attention"])"));
}

void write_tokenizers(fs::path const& folder) {
  writer const seed(folder, "hf_tokenizer");
  auto const file = [](std::vector<std::pair<std::string, std::string>> const& changed) {
    std::vector<std::pair<std::string, std::string>> parts{
        {"model", R"({"type":"BPE","vocab":{"a":0,"b":1,"ab":2,"Ġ":3,"<u>":4},"merges":["a b"]})"},
        {"normalizer", "null"},
        {"pre_tokenizer", R"({"type":"ByteLevel","add_prefix_space":false})"},
        {"added_tokens", R"([{"id":5,"content":"<|end|>","special":true,"normalized":false}])"},
        {"post_processor", "null"},
        {"decoder", R"({"type":"ByteLevel"})"}};
    std::string all;
    for (auto& [name, text] : parts) {
      for (auto const& [key, value] : changed)
        if (name == key) text = value;
      all += (all.empty() ? "{\"" : ",\"") + name + "\":" + text;
    }
    return all + "}";
  };
  seed("plain", file({}));
  seed(
      "pairs",
      file(
          {{"model",
            R"({"type":"BPE","vocab":{"a":0,"b":1,"ab":2,"<u>":4},"merges":[["a","b"]],"unk_token":"<u>","fuse_unk":true,"ignore_merges":true,"byte_fallback":false,"dropout":null,"continuing_subword_prefix":""})"}}));
  seed("bytes", file({{"model", R"({"type":"BPE","vocab":{"a":0},"merges":[],"byte_fallback":true})"}}));
  for (auto const* const form : {"NFC", "NFD", "NFKC", "NFKD"})
    seed(form, file({{"normalizer",
                      R"({"type":"Sequence","normalizers":[{"type":")" + std::string(form) + R"("}]})"}}));
  std::vector<std::pair<char const*, char const*>> const patterns{
      {"qwen",
       R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+)"},
      {"digits", R"(\\p{N}{1,3})"},
      {"classes", R"([\\p{Han}\\u4e00\\x{e9}\\w\\d]+|(?<=a)b|(?<!b)\\W*?|^\\s++$|(?>a|ab)\\.)"},
      {"nested", R"((a|aa)+$)"}};
  std::array const behaviors{"Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"};
  std::size_t next = 0;
  for (auto const& [name, pattern] : patterns) {
    std::string const how = behaviors[next % behaviors.size()], invert = next++ % 2 == 0 ? "false" : "true";
    seed(std::string("split-") + name,
         file({{"pre_tokenizer",
                R"({"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":")" +
                    std::string(pattern) + R"("},"behavior":")" + how + R"(","invert":)" + invert +
                    R"(},{"type":"ByteLevel","add_prefix_space":true,"use_regex":false}]})"}}));
  }
  seed(
      "split-string",
      file(
          {{"pre_tokenizer",
            R"({"type":"Sequence","pretokenizers":[{"type":"Digits","individual_digits":true},{"type":"Split","pattern":{"String":" "},"behavior":"Contiguous"},{"type":"ByteLevel"}]})"}}));
  seed(
      "added",
      file(
          {{"added_tokens",
            R"([{"id":1,"content":"b","special":false,"normalized":true},{"id":7,"content":"<s>","single_word":true,"lstrip":true,"rstrip":true,"normalized":true,"special":false},{"id":6,"content":" é","special":true}])"}}));
  seed(
      "template",
      file(
          {{"post_processor",
            R"({"type":"Sequence","processors":[{"type":"ByteLevel","trim_offsets":false},{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<|end|>","type_id":0}},{"Sequence":{"id":"A","type_id":0}}],"pair":[],"special_tokens":{"<|end|>":{"id":"<|end|>","ids":[5],"tokens":["<|end|>"]}}}]})"}}));
  seed("decoders", file({{"decoder", R"({"type":"Sequence","decoders":[{"type":"ByteLevel"}]})"}}));
  seed("beside",
       file({}) + std::string(1, '\0') +
           R"({"bos_token":"<|end|>","eos_token":{"content":"a"},"add_bos_token":true,"add_eos_token":false})" +
           std::string(1, '\0') + R"({"bos_token_id":1,"eos_token_id":[5,1]})");
  seed(
      "template-lines",
      file(
          {{"post_processor",
            R"({"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"a\nb"}}],"pair":[],"special_tokens":{}})"}}));
  seed("kind-lines", file({{"decoder", R"({"type":"a\nb"})"}, {"model", R"({"type":"BPE","more":1})"}}));
  seed("more-lines", file({{"normalizer", R"({"type":"NFC","more\nlines":1})"}}));
  seed("kind-more", file({{"added_tokens", R"([{"type":"a\nb","more":1}])"}}));
  seed("unigram", file({{"model", R"({"type":"Unigram","vocab":[["a",0.0]]})"}}));
}

void write_lines(fs::path const& folder) {
  writer const seed(folder, "json_lines");
  std::string const lines =
      "{\"text\": \"a line\", \"id\": 1}\n\n  "
      "\r\n{\"text\":\"\"}\n{\"id\":[2],\"text\":\"\\u00e9\\ud83d\\ude00\\n\"}";
  seed("plain", lines);
  seed("end", lines + "\n");
  seed("mark", "\xEF\xBB\xBF" + lines);
  seed("crlf", "{\"text\":\"a\"}\r\n{\"text\":\"b\"}\r\n");
  seed("no-field", "{\"texts\":\"a\"}\n[1]\n\"a\"\nnull\n1e5\n{\"text\":3}\n");
  seed("text", "plain text \xC3\xA9\n\nwith lines\n");
  seed("ids", "1 2 3\n\n4 5 999\r\n\t7 8\n");
  seed("gz", test::gzipped(lines));
  seed("two-gz", test::gzipped(lines + "\n") + test::gzipped(lines));
  seed("zst", test::zstd_packed(lines));
  seed("two-zst", test::zstd_packed(lines + "\n") + test::zstd_packed(lines));
  seed("long-gz", test::gzipped(std::string(1 << 20, 'a')));
  seed("long-zst", test::zstd_packed("{\"text\":\"" + std::string(1 << 20, 'a') + "\"}"));
}

void write_shards(fs::path const& folder) {
  writer const seed(folder, "shards");
  auto const path = folder / "one";
  auto const words = fuzz::small_tokenizer();
  ac::data::shard_facts facts{
      .tokenizer = words.identity_text(), .vocabulary = words.vocab_size(), .cut = "windows", .max_length = 8};
  std::vector<std::int32_t> tokens;
  for (std::int32_t i = 0; i < 30; ++i) tokens.push_back(i * 5 % 13);
  std::vector<ac::index_t> const offsets{0, 8, 16, 20, 22, 30}, texts{0, 3, 4, 5};
  auto const made = [&] {
    ac::data::write_token_shard(path, facts, tokens, offsets, texts);
    return test::read_file(path);
  };
  seed("sound", made());
  facts.more = {{"final", "true"}, {"num_texts", "4"}, {"dropped", "1"}, {"empty", "2"}};
  seed("noted", made());
  facts.more["num_texts"] = "9000000000000000000";
  seed("counted", made());
  facts.max_length = 4;
  seed("longer", made());
  facts.vocabulary = 100'000;
  seed("wide", made());
  fs::remove(path);
}

void write_checkpoints(fs::path const& folder) {
  writer const seed(folder, "checkpoint");
  auto const path = folder / "one";
  fuzz::small_student student;
  student.qkv.updates = 3;
  ac::train::run_state state;
  ac::train::run_facts facts{{"teacher", "tiny"}, {"note", "a \"quoted\" one"}};
  auto const made = [&] {
    ac::train::write_checkpoint(path, facts, state, student.parameters());
    return test::read_file(path);
  };
  seed("fresh", made());
  state.phase = 1;
  state.phase_step = 2;
  state.order = {1, 4};
  state.result.steps.push_back(
      {.phase = 0, .step = 1, .phase_step = 1, .active_layers = 1, .tokens = 24, .targets = 20, .loss = 1.5});
  state.result.steps.push_back({.phase = 1,
                                .step = 2,
                                .phase_step = 2,
                                .active_layers = 2,
                                .tokens = 24,
                                .targets = 20,
                                .loss = 1.25,
                                .skipped = true});
  state.result.evaluations.push_back({.phase = 1,
                                      .step = 2,
                                      .end_of_phase = true,
                                      .active_layers = 2,
                                      .ce = 2.5,
                                      .targets = 7,
                                      .tokens = {48, 40, 72.0}});
  auto const whole = made();
  seed("whole", whole);
  std::string damaged = whole;
  damaged.back() = char(damaged.back() ^ 1);
  seed("damaged", damaged);
  student.head.set_trainable(true);
  seed("another", made());
  fs::remove(path);
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) {
    std::fputs("usage: fuzz_seeds FOLDER\n", stderr);
    return 2;
  }
  try {
    fs::path const folder = arguments[1];
    write_gguf(folder);
    write_safetensors(folder);
    write_index(folder);
    write_config(folder);
    write_tokenizers(folder);
    write_lines(folder);
    write_shards(folder);
    write_checkpoints(folder);
  } catch (std::exception const& e) {
    std::fprintf(stderr, "fuzz_seeds: %s\n", e.what());
    return 1;
  }
}
