#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "accrete/io/safetensors.hpp"
#include "accrete/io/safetensors_writer.hpp"
#include "accrete/io/weights.hpp"
#include "support/catch.hpp"
#include "support/counted_new.hpp"
#include "support/files.hpp"
#include "support/gguf_builder.hpp"
#include "support/teacher.hpp"

using namespace accrete::io;
using accrete::index_t;
using accrete::view;
using test::error_of;
using test::gguf_builder;
using test::one_line;

namespace {

std::vector<float> read(weight_source const& w, std::string_view name) {
  auto const [rows, columns] = w.shape(name);
  std::vector<float> out(std::size_t(rows * columns));
  w.read_rows(name, 0, view<float, 2>(out.data(), {rows, columns}));
  return out;
}
std::uint64_t checksum(std::vector<float> const& values) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &values[i], 4);
    sum += bits * (2 * std::uint64_t(i) + 1);
  }
  return sum;
}
void read_all(weight_source const& w) {
  detail::for_each_tensor(w.config,
                          [&](std::string const& name, std::array<index_t, 2> const&) { (void)read(w, name); });
}

// A model with hidden 32, 2 heads on 1 of 16 numbers, MLP 32, vocabulary 8, 1 layer. Numbers count up, so that
// a row that is read from the wrong place shows.
std::vector<float> counting(std::size_t n, float from) {
  std::vector<float> out(n);
  for (std::size_t i = 0; i < n; ++i) out[i] = from + float(i);
  return out;
}
gguf_builder tiny_gguf(std::string const& arch) {
  gguf_builder b;
  b.string("general.architecture", arch);
  for (auto const& [key, value] :
       std::vector<std::pair<char const*, std::uint32_t>>{{"block_count", 1},
                                                          {"context_length", 64},
                                                          {"embedding_length", 32},
                                                          {"feed_forward_length", 32},
                                                          {"attention.head_count", 2},
                                                          {"attention.head_count_kv", 1}})
    b.u32(arch + "." + key, value);
  b.f32(arch + ".rope.freq_base", 10000).f32(arch + ".attention.layer_norm_rms_epsilon", 1e-5f);
  auto const matrix = [&](std::string const& name, std::uint64_t rows, std::uint64_t columns, float from) {
    b.tensor(name, 0, {columns, rows}, test::bytes_of(counting(rows * columns, from)));
  };
  auto const gain = [&](std::string const& name, std::uint64_t n) {
    b.tensor(name, 0, {n}, test::bytes_of(std::vector<float>(n, 1)));
  };
  matrix("token_embd.weight", 8, 32, 0);
  gain("output_norm.weight", 32);
  gain("blk.0.attn_norm.weight", 32);
  gain("blk.0.ffn_norm.weight", 32);
  std::uint64_t const dh = arch == "qwen3" ? 24 : 16;
  if (arch == "qwen2") {
    b.tensor("blk.0.attn_q.bias", 0, {2 * dh}, test::bytes_of(counting(2 * dh, 100)));
    b.tensor("blk.0.attn_k.bias", 0, {dh}, test::bytes_of(counting(dh, 200)));
    b.tensor("blk.0.attn_v.bias", 0, {dh}, test::bytes_of(counting(dh, 300)));
  }
  if (arch == "qwen3") {
    b.u32("qwen3.attention.key_length", 24).u32("qwen3.attention.value_length", 24);
    gain("blk.0.attn_q_norm.weight", dh);
    gain("blk.0.attn_k_norm.weight", dh);
  }
  matrix("blk.0.attn_q.weight", 2 * dh, 32, 1000);
  matrix("blk.0.attn_k.weight", dh, 32, 3000);
  matrix("blk.0.attn_v.weight", dh, 32, 5000);
  matrix("blk.0.attn_output.weight", 32, 2 * dh, 7000);
  for (char const* name : {"blk.0.ffn_gate.weight", "blk.0.ffn_up.weight", "blk.0.ffn_down.weight"})
    matrix(name, 32, 32, 9000);
  return b;
}

struct hf_model {
  struct entry {
    std::string name;
    safetensors_dtype dtype = safetensors_dtype::f32;
    std::vector<index_t> shape;
    std::string bytes;
  };
  std::string type = "llama";
  std::string config_tail;  // replaces "rope_theta": 10000.0
  std::vector<entry> tensors;

  explicit hf_model(std::string kind = "llama", bool tied = true) : type(std::move(kind)) {
    config_tail = R"("rope_theta": 10000.0, "tie_word_embeddings": )" + std::string(tied ? "true" : "false");
    model_config c;
    c.hidden_size = 32, c.num_hidden_layers = 1, c.num_attention_heads = 2, c.num_key_value_heads = 1,
    c.head_dim = 24;
    c.intermediate_size = 40, c.vocab_size = 8, c.tie_word_embeddings = tied, c.qk_norm = type == "qwen3";
    c.qkv_bias = type == "qwen2";
    float from = 0;
    detail::for_each_tensor(c, [&](std::string const& name, std::array<index_t, 2> const& s) {
      std::vector<index_t> shape{s[0], s[1]};
      if (s[0] == 1) shape = {s[1]};
      tensors.push_back(
          {name, safetensors_dtype::f32, shape, test::bytes_of(counting(std::size_t(s[0] * s[1]), from))});
      from += 1000;
    });
  }
  [[nodiscard]] std::string config() const {
    return R"({"architectures": ["X"], "model_type": ")" + type +
           R"(", "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 24, )"
           R"("intermediate_size": 40, "vocab_size": 8, "max_position_embeddings": 64, "rms_norm_eps": 1e-05, "hidden_act": "silu", )"
           R"("bos_token_id": 1, "eos_token_id": [2, 3], )" +
           config_tail + "}";
  }
  entry& at(std::string_view name) {
    for (auto& t : tensors)
      if (t.name == name) return t;
    throw std::runtime_error("no " + std::string(name));
  }
  hf_model& drop(std::string_view name) {
    std::erase_if(tensors, [&](entry const& t) { return t.name == name; });
    return *this;
  }
  static void save(std::filesystem::path const& path, std::span<entry const> some) {
    safetensors_writer out(path);
    out.metadata("format", "pt");
    for (auto const& t : some) out.declare(t.name, t.dtype, t.shape);
    for (auto const& t : some) out.append(t.name, std::as_bytes(std::span(t.bytes.data(), t.bytes.size())));
    out.commit();
  }
  void save_to(std::filesystem::path const& folder) const {
    std::filesystem::create_directories(folder);
    test::write_file(folder / "config.json", config());
    save(folder / "model.safetensors", tensors);
  }
};

std::string refusal_of(std::filesystem::path const& path) {
  return error_of([&] { (void)open_weights(path); });
}

}  // namespace

TEST_CASE("open_weights reads the real teacher's shape", "[io][weights][teacher]") {
  auto const w = open_weights(test::teacher_file());
  model_config const& c = w->config;
  CHECK(c.architecture == "llama");
  CHECK(c.hidden_size == 576);
  CHECK(c.num_hidden_layers == 30);
  CHECK(c.num_attention_heads == 9);
  CHECK(c.num_key_value_heads == 3);
  CHECK(c.head_dim == 64);
  CHECK(c.intermediate_size == 1536);
  CHECK(c.vocab_size == 49152);
  CHECK(c.max_position_embeddings == 8192);
  CHECK(c.rope_theta == 100000.0);
  CHECK(float(c.rms_norm_eps) == 1e-5f);
  CHECK(c.tie_word_embeddings);
  CHECK_FALSE(c.qk_norm);
  CHECK(c.bos_token_id == 1);
  CHECK(c.eos_token_id == 2);
  CHECK(c.eos_token_ids == std::vector<std::int32_t>{2});
  CHECK(c.rotary.kind == rotary_kind::plain);
  CHECK_FALSE(c.qkv_bias);
  CHECK(dynamic_cast<gguf_weights const&>(*w).file().tensors().size() == 272);
  CHECK_FALSE(w->has("lm_head.weight"));
  CHECK(w->shape("model.layers.29.mlp.down_proj.weight") == std::array<index_t, 2>{576, 1536});
  CHECK(w->shape("model.norm.weight") == std::array<index_t, 2>{1, 576});
  CHECK_THAT(error_of([&] { (void)w->shape("model.layers.30.mlp.up_proj.weight"); }),
             Catch::ContainsSubstring("model.layers.30.mlp.up_proj.weight"));
}

TEST_CASE("open_weights reads the real teacher's numbers", "[io][weights][teacher]") {
  auto const w = open_weights(test::teacher_file());
  auto const gain = read(*w, "model.norm.weight");
  double sum = 0;
  for (float const g : gain) sum += double(g);
  CHECK(sum / 576 == Approx(1.8026597).epsilon(1e-6));
  CHECK(*std::min_element(gain.begin(), gain.end()) == -2.125f);
  CHECK(*std::max_element(gain.begin(), gain.end()) == 3.34375f);
  double squares = 0;
  auto const embedding = read(*w, "model.embed_tokens.weight");
  for (float const e : embedding) squares += double(e) * double(e);
  CHECK(std::sqrt(squares / double(embedding.size())) == Approx(0.13557929).epsilon(1e-6));
  CHECK(checksum(embedding) == 0xee6fa1c00885e840ull);
  // 3 heads of 64 rows, neighbours taken apart into halves, by NumPy
  CHECK(checksum(read(*w, "model.layers.0.self_attn.k_proj.weight")) == 0x65c0e96aaa10ac00ull);
  auto const q = read(*w, "model.layers.3.self_attn.q_proj.weight");
  CHECK(q[0] == 0x1.3f2p-4f);
  CHECK(q[1 * 576] == -0x1.6dp-7f);
  CHECK(q[31 * 576] == 0x1.404p-3f);
  CHECK(q[32 * 576] == 0x1.6ep-5f);
  CHECK(q[33 * 576 + 575] == -0x1.464p-3f);
  CHECK(q[64 * 576] == 0x1.96cp-3f);
}

TEST_CASE("gguf_weights reads any range of rows in half-split order", "[io][weights]") {
  test::temporary_folder folder;
  auto const w = open_weights(test::write_file(folder / "x.gguf", tiny_gguf("llama").build()));
  CHECK(w->config.head_dim == 16);
  auto const all = read(*w, "model.layers.0.self_attn.q_proj.weight");
  for (index_t row = 0; row < 32; ++row) {
    index_t const i = row % 16;
    index_t const stored = row - i + (i < 8 ? 2 * i : 2 * (i - 8) + 1);
    CHECK(all[std::size_t(row) * 32] == 1000.0f + float(stored * 32));
  }
  std::vector<float> some(5 * 32);
  w->read_rows("model.layers.0.self_attn.q_proj.weight", 13, view<float, 2>(some.data(), {5, 32}));
  CHECK(std::equal(some.begin(), some.end(), all.begin() + 13 * 32));
  CHECK(read(*w, "model.layers.0.self_attn.v_proj.weight")[32] == 5032.0f);  // values are not permuted
}

TEST_CASE("gguf_weights reads Qwen3 with its own head_dim and unpermuted rows", "[io][weights][U33]") {
  test::temporary_folder folder;
  auto const w = open_weights(test::write_file(folder / "x.gguf", tiny_gguf("qwen3").build()));
  CHECK(w->config.head_dim == 24);
  CHECK(w->config.qk_norm);
  CHECK(w->shape("model.layers.0.self_attn.q_norm.weight") == std::array<index_t, 2>{1, 24});
  CHECK(read(*w, "model.layers.0.self_attn.k_proj.weight") == counting(24 * 32, 3000));
}

TEST_CASE("gguf_weights reads Qwen2's biases, and Llama's where they are, half-split", "[io][weights]") {
  test::temporary_folder folder;
  auto const w = open_weights(test::write_file(folder / "x.gguf", tiny_gguf("qwen2").build()));
  CHECK(w->config.head_dim == 16);
  CHECK(w->config.qkv_bias);
  CHECK_FALSE((w->config.output_bias || w->config.qk_norm));
  CHECK(w->shape("model.layers.0.self_attn.q_proj.bias") == std::array<index_t, 2>{1, 32});
  CHECK(read(*w, "model.layers.0.self_attn.q_proj.bias") == counting(32, 100));
  CHECK(read(*w, "model.layers.0.self_attn.k_proj.bias") == counting(16, 200));
  CHECK(read(*w, "model.layers.0.self_attn.k_proj.weight") == counting(16 * 32, 3000));
  CHECK_THAT(refusal_of(test::write_file(folder / "y.gguf",
                                         tiny_gguf("qwen2").erase_tensor("blk.0.attn_v.bias").build())),
             Catch::ContainsSubstring("attn_v.bias"));

  auto b = tiny_gguf("llama");
  b.tensor("blk.0.attn_q.bias", 0, {32}, test::bytes_of(counting(32, 100)));
  b.tensor("blk.0.attn_k.bias", 0, {16}, test::bytes_of(counting(16, 200)));
  b.tensor("blk.0.attn_v.bias", 0, {16}, test::bytes_of(counting(16, 300)));
  b.tensor("blk.0.attn_output.bias", 0, {32}, test::bytes_of(counting(32, 400)));
  auto const l = open_weights(test::write_file(folder / "z.gguf", b.build()));
  CHECK((l->config.qkv_bias && l->config.output_bias));
  auto const q = read(*l, "model.layers.0.self_attn.q_proj.bias");
  for (index_t i = 0; i < 32; ++i)
    CHECK(q[std::size_t(i)] ==
          100.0f + float(i / 16 * 16 + (i % 16 < 8 ? 2 * (i % 16) : 2 * (i % 16 - 8) + 1)));
  CHECK(read(*l, "model.layers.0.self_attn.v_proj.bias") == counting(16, 300));
  CHECK(read(*l, "model.layers.0.self_attn.o_proj.bias") == counting(32, 400));
}

TEST_CASE("gguf_weights takes Llama 3's rotation from its divisors, and no other", "[io][weights]") {
  test::temporary_folder folder;
  // Heads of 16 at theta 500,000, divided by 32: tests/reference/rotary_frequencies.py.
  std::vector<float> const good{1, 1, 1, 1, 3.292262077331543f, 32, 32, 32};
  auto const with = [&](std::vector<float> const& divisors) {
    auto b = tiny_gguf("llama");
    b.f32("llama.rope.freq_base", 5e5f);
    return test::write_file(
        folder / "x.gguf",
        b.tensor("rope_freqs.weight", 0, {divisors.size()}, test::bytes_of(divisors)).build());
  };
  CHECK(open_weights(with(good))->config.rotary == rotary_scaling{rotary_kind::llama3, 32, 1, 4, 8192});
  CHECK(open_weights(with(std::vector<float>(8, 1)))->config.rotary == rotary_scaling{});
  auto bad = good;
  bad[3] = 1.5f;
  CHECK_THAT(refusal_of(with(bad)), Catch::ContainsSubstring("rope_freqs.weight") &&
                                        Catch::ContainsSubstring("1.500000 at pair 3, expected 1.000000"));
  bad = good;
  bad[7] = std::numeric_limits<float>::quiet_NaN();
  CHECK_THAT(refusal_of(with(bad)), Catch::ContainsSubstring("rope_freqs.weight"));
  bad = good;
  bad.pop_back();
  CHECK_THAT(refusal_of(with(bad)), Catch::ContainsSubstring("F32[7], expected F32[8]"));
}

TEST_CASE("gguf_weights takes an output matrix as an untied head", "[io][weights]") {
  test::temporary_folder folder;
  auto b = tiny_gguf("llama");
  b.tensor("output.weight", 0, {32, 8}, test::bytes_of(counting(256, 4)));
  auto const w = open_weights(test::write_file(folder / "x.gguf", b.build()));
  CHECK_FALSE(w->config.tie_word_embeddings);
  CHECK(read(*w, "lm_head.weight") == counting(256, 4));
}

TEST_CASE("gguf_weights refuses by name what it would compute wrongly", "[io][weights]") {
  test::temporary_folder folder;
  auto const check = [&](gguf_builder const& b, char const* says) {
    auto const text = refusal_of(test::write_file(folder / "x.gguf", b.build()));
    INFO(text);
    CHECK(one_line(text));
    CHECK_THAT(text, Catch::ContainsSubstring(says) && Catch::ContainsSubstring("x.gguf"));
  };
  auto const good = [] { return tiny_gguf("llama"); };
  CHECK(refusal_of(test::write_file(folder / "x.gguf", good().build())).empty());
  for (char const* key : {"general.architecture", "llama.block_count", "llama.context_length",
                          "llama.embedding_length", "llama.feed_forward_length", "llama.attention.head_count",
                          "llama.rope.freq_base", "llama.attention.layer_norm_rms_epsilon"})
    check(good().erase(key), key);
  for (char const* name :
       {"token_embd.weight", "output_norm.weight", "blk.0.attn_norm.weight", "blk.0.ffn_down.weight"})
    check(good().erase_tensor(name), name);
  check(good().string("general.architecture", "gpt2"), "'gpt2'");
  check(good().u32("split.count", 3), "one of the 3 parts");
  check(good().string("llama.rope.scaling.type", "yarn"), "'yarn'");
  check(good().f32("llama.rope.scaling.factor", 4), "rope.scaling.factor");
  check(good().f32("llama.rope.freq_base", 0), "rope_theta");
  check(good().u32("llama.rope.dimension_count", 8), "rope.dimension_count");
  check(good().u32("llama.attention.value_length", 8), "value_length");
  check(good().u32("llama.expert_count", 8), "expert_count");
  check(good().u32("llama.vocab_size", 9), "vocab_size");
  check(good().u32("llama.attention.head_count_kv", 3), "key-value heads");
  check(good().u32("llama.attention.head_count_kv", 0), "num_key_value_heads");
  check(good().u32("llama.attention.head_count", 0), "key_length");
  check(good().u32("llama.attention.head_count", 3), "key_length");
  check(good().u32("llama.attention.key_length", 15), "head_dim");
  check(good().u32("llama.block_count", 2), "blk.1.attn_norm.weight");
  check(good().u32("llama.block_count", 0xFFFFFFFF), "num_hidden_layers");
  check(good().u32("llama.embedding_length", 64), "token_embd.weight");
  check(good().u32("llama.feed_forward_length", 31), "ffn_gate.weight");
  check(good().array("llama.attention.head_count", 4, 1, gguf_builder::raw(2u)), "got array");
  for (char const* key : {"attention.scale", "attention.clamp_kqv", "attention.max_alibi_bias", "logit_scale",
                          "attn_logit_softcapping", "final_logit_softcapping", "embedding_scale",
                          "residual_scale", "rope.scale_linear", "rope.scaling.attn_factor"})
    check(good().f32("llama." + std::string(key), 0.25f), key);
  check(good().entry("llama.attention.causal", 7, std::string(1, '\0')), "attention.causal");
  check(good().tensor("rope_freqs.weight", 0, {8}, std::string(32, '\0')), "rope_freqs.weight");
  check(good().tensor("blk.0.attn_q.bias", 0, {32}, std::string(128, '\0')), "attn_k.bias");
  check(good().tensor("blk.0.ffn_up.bias", 0, {32}, std::string(128, '\0')), "ffn_up.bias");
  check(good().tensor("blk.0.ffn_norm.weight", 0, {31}, std::string(124, '\0')), "expected [1, 32]");
  check(good().tensor("blk.0.ffn_norm.weight", 25, {32}, std::string(64, '\0')), "I16");
}

TEST_CASE("weight sources refuse values that are not finite", "[io][weights]") {
  test::temporary_folder folder;
  for (float const bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    auto values = counting(32 * 32, 0);
    values[5 * 32 + 31] = bad;
    auto const w = open_weights(test::write_file(
        folder / "x.gguf",
        tiny_gguf("llama").tensor("blk.0.ffn_up.weight", 0, {32, 32}, test::bytes_of(values)).build()));
    CHECK_THAT(error_of([&] { (void)read(*w, "model.layers.0.mlp.up_proj.weight"); }),
               Catch::ContainsSubstring("blk.0.ffn_up.weight") &&
                   Catch::ContainsSubstring("row 5 that is not finite"));
  }
}

TEST_CASE("gguf_weights survives every cut, every flipped bit and extreme numbers anywhere", "[io][weights]") {
  test::temporary_folder folder;
  auto const path = folder / "x.gguf";
  auto whole = tiny_gguf("llama");  // with all that is optional
  whole.f32("llama.rope.freq_base", 5e5f);
  whole.tensor("rope_freqs.weight", 0, {8},
               test::bytes_of(std::vector<float>{1, 1, 1, 1, 3.292262077331543f, 32, 32, 32}));
  for (auto const& [name, size] : {std::pair("blk.0.attn_q.bias", 32u), std::pair("blk.0.attn_k.bias", 16u),
                                   std::pair("blk.0.attn_v.bias", 16u)})
    whole.tensor(name, 0, {size}, test::bytes_of(counting(size, 1)));
  test::damaged_file file(path, whole.build());
  std::size_t const header = whole.header().size();
  std::size_t loaded = 0;
  std::size_t tried = 0;
  auto const attempt = [&] {
    std::size_t const before = test::bytes_requested;
    auto const text = error_of([&] { read_all(*open_weights(path)); });
    auto const asked = test::bytes_requested - before;
    REQUIRE(asked < 8 * file.good().size());
    REQUIRE(text.find('\n') == std::string::npos);
    loaded += text.empty();
    ++tried;
  };
  for (std::size_t bit = 0; bit < header * 8; ++bit) file.with_bit_flipped(bit, attempt);
  for (std::uint64_t const extreme :
       {~std::uint64_t(0), std::uint64_t(1) << 63, (std::uint64_t(1) << 63) - 1, std::uint64_t(0),
        std::uint64_t(1) << 32, std::uint64_t(file.good().size()), ~std::uint64_t(31)})
    for (std::size_t at = 4; at + 8 <= header; ++at) file.with(at, gguf_builder::raw(extreme), attempt);
  std::mt19937_64 random(7);
  for (int i = 0; i < 3000; ++i) {
    std::size_t const at = random() % (header - 8);
    file.with(at, gguf_builder::raw(std::uint64_t(random())).substr(0, 1 + random() % 8), attempt);
  }
  CHECK(tried > 10000);
  CHECK(loaded < tried / 4);
  CHECK(refusal_of(path).empty());
  file.cut([&](std::size_t n) { return n > header + 80 && n % 37 != 0 ? n % 37 : 1; },
           [&](std::size_t n) {
             auto const text = refusal_of(path);
             REQUIRE(one_line(text));
             if (n > header + 32) REQUIRE_THAT(text, Catch::ContainsSubstring("cut short"));
           });
}

TEST_CASE("open_weights says what to give when it is given something else", "[io][weights]") {
  test::temporary_folder folder;
  CHECK_THAT(refusal_of(folder / "none.gguf"), Catch::ContainsSubstring("No such file"));
  CHECK_THAT(refusal_of(folder.path()), Catch::ContainsSubstring("config.json"));
  CHECK_THAT(refusal_of(test::write_file(folder / "x.gguf", "PK\3\4 and so on, a zip")),
             Catch::ContainsSubstring("'GGUF'"));
  hf_model().save_to(folder / "m");
  CHECK_THAT(refusal_of(folder / "m/model.safetensors"),
             Catch::ContainsSubstring("the directory that holds it"));
  std::filesystem::remove(folder / "m/model.safetensors");
  CHECK_THAT(refusal_of(folder / "m"), Catch::ContainsSubstring("neither model.safetensors nor"));
}

TEST_CASE("identity follows from content alone", "[io][weights]") {
  test::temporary_folder folder;
  auto const good = tiny_gguf("llama").build();
  auto const of = [&](char const* name, std::string const& bytes) {
    return open_weights(test::write_file(folder / name, bytes))->identity();
  };
  auto changed = good;
  changed.back() = char(changed.back() ^ 1);
  CHECK(of("a", good) == of("b", good));
  CHECK(of("a", good) != of("a", changed));
  hf_model().save_to(folder / "one");
  hf_model().save_to(folder / "two");
  auto other = hf_model();
  other.config_tail = R"("rope_theta": 10001.0, "tie_word_embeddings": true)";
  other.save_to(folder / "three");
  auto const one = open_weights(folder / "one")->identity();
  CHECK(one.size() == 32);
  CHECK(one == open_weights(folder / "two")->identity());
  CHECK(one != open_weights(folder / "three")->identity());
}

TEST_CASE("hf_weights reads Llama, Qwen2 and Qwen3 directories", "[io][weights]") {
  test::temporary_folder folder;
  for (std::string const kind : {"llama", "qwen2", "qwen3"})
    for (bool const tied : {true, false}) {
      hf_model const model(kind, tied);
      auto const path = folder / (kind + (tied ? "1" : "0"));
      model.save_to(path);
      auto const w = open_weights(path);
      CHECK(w->config.architecture == kind);
      CHECK(w->config.head_dim == 24);
      CHECK(w->config.qk_norm == (kind == "qwen3"));
      CHECK(w->config.qkv_bias == (kind == "qwen2"));
      CHECK_FALSE(w->config.output_bias);
      CHECK(w->config.eos_token_ids == std::vector<std::int32_t>{2, 3});
      CHECK(w->config.tie_word_embeddings == tied);
      CHECK(w->has("lm_head.weight") == !tied);
      CHECK(w->config.rms_norm_eps == 1e-5);
      CHECK(w->config.bos_token_id == 1);
      CHECK(w->config.eos_token_id == 2);
      for (auto const& t : model.tensors) CHECK(test::bytes_of(read(*w, t.name)) == t.bytes);
      std::vector<float> row(32);
      w->read_rows("model.layers.0.self_attn.q_proj.weight", 7, view<float, 2>(row.data(), {1, 32}));
      CHECK(row == counting(32, 2000.0f + 7 * 32));
      if (kind == "qwen2")
        CHECK(w->shape("model.layers.0.self_attn.k_proj.bias") == std::array<index_t, 2>{1, 24});
      CHECK(one_line(error_of([&] {
        w->read_rows("model.norm.weight", 1, view<float, 2>(row.data(), {1, 32}));
      })));
    }
}

TEST_CASE("hf_weights widens half precision tensors at any byte offset", "[io][weights]") {
  test::temporary_folder folder;
  hf_model model;
  auto& up = model.at("model.layers.0.mlp.up_proj.weight");
  up.dtype = safetensors_dtype::bf16;
  up.bytes = test::bytes_of(std::vector<std::uint16_t>(40 * 32, 0xC049));
  auto& norm = model.at("model.norm.weight");
  norm.dtype = safetensors_dtype::f16;
  norm.bytes = test::bytes_of(std::vector<std::uint16_t>(32, 0x3555));
  model.save_to(folder / "m");
  auto const w = open_weights(folder / "m");
  CHECK(read(*w, "model.layers.0.mlp.up_proj.weight") == std::vector<float>(40 * 32, -3.140625f));
  CHECK(read(*w, "model.norm.weight") == std::vector<float>(32, 0x1.554p-2f));
}

TEST_CASE("hf_weights finds rope_theta in either place and never makes one up", "[io][weights]") {
  test::temporary_folder folder;
  auto const open = [&](std::string const& tail) {
    hf_model m;
    m.config_tail = tail + R"(, "tie_word_embeddings": true)";
    m.save_to(folder / "m");
    return open_weights(folder / "m")->config.rope_theta;
  };
  auto const refusal = [&](std::string const& tail) { return error_of([&] { (void)open(tail); }); };
  CHECK(open(R"("rope_theta": 500000)") == 500000);
  CHECK(open(R"("rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0})") == 1e6);
  CHECK(open(R"("rope_theta": 5, "rope_parameters": {"rope_theta": 7})") == 7);
  CHECK(open(R"("rope_theta": 5, "rope_scaling": null)") == 5);
  CHECK(open(R"("rope_theta": 5, "rope_scaling": {"type": "default"})") == 5);
  CHECK_THAT(refusal(R"("rope_scaling": null)"), Catch::ContainsSubstring("no rope_theta"));
  CHECK_THAT(refusal(R"("rope_theta": 5, "rope_scaling": {"rope_type": "llama3", "factor": 8})"),
             Catch::ContainsSubstring("'llama3'"));
  CHECK_THAT(refusal(R"("rope_theta": 5, "rope_scaling": {"type": "linear"})"),
             Catch::ContainsSubstring("'linear'"));
  CHECK_THAT(refusal(R"("rope_parameters": {"rope_type": "yarn", "rope_theta": 5})"),
             Catch::ContainsSubstring("'yarn'"));
  CHECK_THAT(refusal(R"("rope_theta": 5, "rope_scaling": {"factor": 2.0})"),
             Catch::ContainsSubstring("factor"));
  CHECK_THAT(refusal(R"("rope_theta": 5, "partial_rotary_factor": 0.5)"),
             Catch::ContainsSubstring("partial_rotary_factor"));
}

TEST_CASE("hf_weights finds Llama 3's scaling under either key, in either place", "[io][weights]") {
  test::temporary_folder folder;
  auto const open = [&](std::string const& tail) {
    hf_model m;
    m.config_tail = tail + R"(, "tie_word_embeddings": true)";
    m.save_to(folder / "m");
    return open_weights(folder / "m")->config;
  };
  auto const refusal = [&](std::string const& tail) {
    auto const text = error_of([&] { (void)open(tail); });
    CHECK(one_line(text));
    return text;
  };
  std::string const numbers =
      R"("factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192)";
  rotary_scaling const wanted{rotary_kind::llama3, 32, 1, 4, 8192};
  for (char const* key : {"rope_type", "type"}) {
    std::string const scaling = "{\"" + std::string(key) + R"(": "llama3", )" + numbers;
    CHECK(open(R"("rope_theta": 5e5, "rope_scaling": )" + scaling + "}").rotary == wanted);
    auto const newer = open(R"("rope_parameters": )" + scaling + R"(, "rope_theta": 500000.0})");
    CHECK(newer.rotary == wanted);
    CHECK(newer.rope_theta == 5e5);
  }
  CHECK(open(R"("rope_scaling": {"type": "llama3", "rope_type": "llama3", "rope_theta": 7.5, )" + numbers + "}")
            .rope_theta == 7.5);
  CHECK(open(R"("rope_theta": 5, "rope_scaling": {"rope_type": "default", "factor": 1.0})").rotary ==
        rotary_scaling{});
  for (std::string const key :
       {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"}) {
    auto others = numbers;  // the number under a name that is known and not asked for
    others.replace(others.find("\"" + key + "\""), key.size() + 2, "\"rope_theta\"");
    CHECK_THAT(refusal(R"("rope_theta": 5, "rope_scaling": {"rope_type": "llama3", )" + others + "}"),
               Catch::ContainsSubstring("no " + key));
  }
  CHECK_THAT(
      refusal(R"("rope_theta": 5, "rope_scaling": {"rope_type": "llama3", "type": "yarn", )" + numbers + "}"),
      Catch::ContainsSubstring("'llama3'") && Catch::ContainsSubstring("'yarn'"));
  CHECK_THAT(refusal(R"("rope_theta": 5, "rope_scaling": {"rope_type": "default", "mrope_section": [1, 2]})"),
             Catch::ContainsSubstring("'mrope_section'"));
  CHECK_THAT(refusal(R"("rope_theta": 5, "rope_parameters": {"full_attention": {"rope_theta": 5}})"),
             Catch::ContainsSubstring("'full_attention'"));
  CHECK_THAT(refusal(R"("rope_parameters": {"rope_theta": 5}, "rope_scaling": {"rope_type": "llama3", )" +
                     numbers + "}"),
             Catch::ContainsSubstring("rope_parameters and rope_scaling that differ"));
  CHECK_THAT(refusal(R"("rope_theta": 5, "rope_scaling": {"rope_type": "longrope"})"),
             Catch::ContainsSubstring("'longrope'"));
  CHECK_THAT(refusal(R"("rope_theta": 5, "rope_scaling": "llama3")"), Catch::ContainsSubstring("rope_scaling"));
  auto odd = numbers;
  odd.replace(odd.find("32.0"), 4, "0.5");
  CHECK_THAT(refusal(R"("rope_theta": 5, "rope_scaling": {"rope_type": "llama3", )" + odd + "}"),
             Catch::ContainsSubstring("rope_scaling: factor"));
}

TEST_CASE("hf_weights finds every token that ends a text, in both configs", "[io][weights]") {
  test::temporary_folder folder;
  hf_model().save_to(folder / "m");
  auto const ends = [&](std::string const& generation) {
    test::write_file(folder / "m/generation_config.json", generation);
    return open_weights(folder / "m")->config.eos_token_ids;
  };
  using ids = std::vector<std::int32_t>;
  CHECK(ends(R"({"eos_token_id": [7, 2, 5]})") == ids{2, 3, 7, 5});
  CHECK(ends(R"({"eos_token_id": 4, "temperature": 0.6})") == ids{2, 3, 4});
  CHECK(ends(R"({"do_sample": true})") == ids{2, 3});
  CHECK_THAT(error_of([&] { ends(R"({"eos_token_id": "x"})"); }),
             Catch::ContainsSubstring("generation_config.json"));
  CHECK_THAT(error_of([&] { ends("[]"); }), Catch::ContainsSubstring("generation_config.json"));
}

TEST_CASE("hf_weights refuses by name what it would compute wrongly", "[io][weights]") {
  test::temporary_folder folder;
  auto const refusal = [&](hf_model const& m) {
    m.save_to(folder / "m");
    auto const text = refusal_of(folder / "m");
    CHECK(text.find('\n') == std::string::npos);
    return text;
  };
  auto const with = [&](std::string const& extra) {
    hf_model m;
    m.config_tail += ", " + extra;
    return refusal(m);
  };
  CHECK_THAT(with(R"("attention_bias": true)"),
             Catch::ContainsSubstring("no tensor") && Catch::ContainsSubstring("self_attn.q_proj.bias"));
  CHECK(with(R"("attention_bias": false)").empty());
  hf_model qwen2("qwen2");
  qwen2.config_tail += R"(, "attention_bias": false)";
  CHECK_THAT(refusal(qwen2), Catch::ContainsSubstring("attention_bias"));
  qwen2.config_tail.replace(qwen2.config_tail.find("false"), 5, "true");
  CHECK(refusal(qwen2).empty());
  for (char const* flag : {"mlp_bias", "use_sliding_window", "use_mrope", "rope_interleaved"}) {
    CHECK_THAT(with("\"" + std::string(flag) + "\": true"), Catch::ContainsSubstring(flag));
    CHECK(with("\"" + std::string(flag) + "\": false").empty());
  }
  CHECK_THAT(with(R"("quantization_config": {"bits": 4})"), Catch::ContainsSubstring("quantization_config"));
  CHECK_THAT(with(R"("layer_types": ["sliding_attention"])"), Catch::ContainsSubstring("sliding_attention"));
  CHECK_THAT(with(R"("head_dim": 24)"), Catch::ContainsSubstring("twice"));
  auto const replaced = [&](std::string const& from, std::string const& to, std::string const& kind = "llama") {
    hf_model m(kind);
    m.save_to(folder / "m");
    std::string text = m.config();
    text.replace(text.find(from), from.size(), to);
    test::write_file(folder / "m/config.json", text);
    auto const said = refusal_of(folder / "m");
    CHECK(said.find('\n') == std::string::npos);
    return said;
  };
  CHECK_THAT(replaced("\"silu\"", "\"gelu\""),
             Catch::ContainsSubstring("hidden_act") && Catch::ContainsSubstring("'gelu'"));
  CHECK(replaced("\"silu\"", "\"swish\"").empty());
  CHECK_THAT(replaced("\"model_type\": \"llama\"", "\"model_type\": \"mamba\""),
             Catch::ContainsSubstring("'mamba'"));
  for (char const* key : {"hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
                          "vocab_size", "max_position_embeddings", "rms_norm_eps", "model_type"})
    CHECK_THAT(replaced("\"" + std::string(key) + "\"", "\"x\""), Catch::ContainsSubstring(key));
  CHECK_THAT(replaced("\"head_dim\": 24, ", "", "qwen3"), Catch::ContainsSubstring("no head_dim"));
  for (char const* kind : {"llama", "qwen2"})
    CHECK_THAT(replaced("\"head_dim\": 24, ", "", kind),
               Catch::ContainsSubstring("q_proj"));  // 16 by default: shapes differ
  CHECK_THAT(replaced("\"num_key_value_heads\": 1, ", "", "qwen3"),
             Catch::ContainsSubstring("no num_key_value_heads"));
  CHECK_THAT(replaced("\"hidden_size\": 32", "\"hidden_size\": 32.0"), Catch::ContainsSubstring("hidden_size"));
  CHECK_THAT(replaced("\"hidden_size\": 32", "\"hidden_size\": -32"), Catch::ContainsSubstring("hidden_size"));
  CHECK_THAT(replaced("\"num_hidden_layers\": 1", "\"num_hidden_layers\": 1000000000"),
             Catch::ContainsSubstring("model.layers.1."));
  CHECK_THAT(replaced("\"num_attention_heads\": 2", "\"num_attention_heads\": 0"),
             Catch::ContainsSubstring("num_attention_heads"));
  CHECK_THAT(replaced("}", ""), Catch::ContainsSubstring("config.json"));
}

// U64: nothing may stay unread, or be read from where it does not belong.
TEST_CASE("hf_weights asks for exactly the tensors of the config", "[io][weights]") {
  test::temporary_folder folder;
  auto const refusal = [&](hf_model const& m) {
    m.save_to(folder / "m");
    auto const text = refusal_of(folder / "m");
    CHECK(text.find('\n') == std::string::npos);
    return text;
  };
  for (std::string const kind : {"qwen2", "qwen3"})
    for (auto const& t : hf_model(kind, false).tensors)
      CHECK_THAT(refusal(hf_model(kind, false).drop(t.name)), Catch::ContainsSubstring("no tensor '" + t.name));
  hf_model m;
  m.tensors.push_back(
      {"model.layers.0.self_attn.q_proj.bias", safetensors_dtype::f32, {1}, std::string(4, '\0')});
  CHECK_THAT(refusal(m), Catch::ContainsSubstring("q_proj.bias"));
  m = hf_model();
  m.tensors.push_back(
      {"model.layers.0.self_attn.rotary_emb.inv_freq", safetensors_dtype::f32, {1}, std::string(4, '\0')});
  CHECK(refusal(m).empty());
  m = hf_model();
  m.at("model.norm.weight").shape = {16, 2};
  CHECK_THAT(refusal(m), Catch::ContainsSubstring("model.norm.weight") &&
                             Catch::ContainsSubstring("[16, 2], expected [32]"));
  m = hf_model();
  m.at("model.norm.weight").dtype = safetensors_dtype::i32;
  CHECK_THAT(refusal(m), Catch::ContainsSubstring("I32"));
}

// U65: a tied model that was saved with its head all the same.
TEST_CASE("hf_weights takes a tied head only if it equals the embedding", "[io][weights]") {
  test::temporary_folder folder;
  hf_model m;
  auto head = m.at("model.embed_tokens.weight");
  head.name = "lm_head.weight";
  m.tensors.push_back(head);
  m.save_to(folder / "m");
  CHECK_FALSE(open_weights(folder / "m")->has("lm_head.weight"));
  m.at("lm_head.weight").bytes[100] ^= 1;
  m.save_to(folder / "m");
  CHECK_THAT(refusal_of(folder / "m"), Catch::ContainsSubstring("lm_head.weight unlike the embedding"));
}

TEST_CASE("hf_weights reads shards and refuses an index that lies", "[io][weights]") {
  test::temporary_folder folder;
  auto const path = folder / "m";
  hf_model const m("llama", false);
  m.save_to(path);
  std::filesystem::remove(path / "model.safetensors");
  auto const half = std::span(m.tensors).first(5);
  auto const rest = std::span(m.tensors).subspan(5);
  hf_model::save(path / "a.safetensors", half);
  hf_model::save(path / "b.safetensors", rest);
  auto const index = [&](std::string const& first_file, std::string const& skip = "",
                         std::string const& extra = "") {
    std::string text = R"({"metadata":{"total_size":1},"weight_map":{)";
    for (std::size_t i = 0; i < m.tensors.size(); ++i)
      if (m.tensors[i].name != skip)
        text += "\"" + m.tensors[i].name + "\":\"" +
                (i == 0  ? first_file
                 : i < 5 ? "a.safetensors"
                         : "b.safetensors") +
                "\",";
    text += extra;
    if (text.back() == ',') text.pop_back();
    test::write_file(path / "model.safetensors.index.json", text + "}}");
  };
  auto const refusal = [&] {
    auto const text = refusal_of(path);
    CHECK(text.find('\n') == std::string::npos);
    return text;
  };
  index("a.safetensors");
  {
    auto const w = open_weights(path);
    for (auto const& t : m.tensors) CHECK(test::bytes_of(read(*w, t.name)) == t.bytes);
  }
  for (char const* name : {"../a.safetensors", "sub/a.safetensors", "sub\\\\a", "", "..", "a\\u0000"}) {
    index(name);
    CHECK_THAT(refusal(), Catch::ContainsSubstring("one in the same directory"));
  }
  index("b.safetensors");
  CHECK_THAT(refusal(), Catch::ContainsSubstring("b.safetensors") &&
                            Catch::ContainsSubstring("no tensor 'model.embed_tokens.weight'"));
  index("c.safetensors");
  CHECK_THAT(refusal(), Catch::ContainsSubstring("c.safetensors") && Catch::ContainsSubstring("No such file"));
  index("a.safetensors", "model.norm.weight");
  CHECK_THAT(refusal(), Catch::ContainsSubstring("model.norm.weight"));
  index("a.safetensors", "", R"("ghost":"a.safetensors")");
  CHECK_THAT(refusal(), Catch::ContainsSubstring("no tensor 'ghost'"));
  index("a.safetensors");
  hf_model::save(path / "b.safetensors", std::span(m.tensors).subspan(4));
  CHECK_THAT(refusal(), Catch::ContainsSubstring("in one shard only"));
  std::filesystem::remove(path / "b.safetensors");
  CHECK_THAT(refusal(), Catch::ContainsSubstring("b.safetensors"));
  test::write_file(path / "model.safetensors.index.json", "{}");
  CHECK_THAT(refusal(), Catch::ContainsSubstring("no weight_map"));
}

TEST_CASE("hf_weights survives flipped bits of config and header", "[io][weights]") {
  test::temporary_folder folder;
  hf_model whole("qwen2");
  whole.config_tail +=
      R"(, "rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4, )"
      R"("original_max_position_embeddings": 100})";
  whole.save_to(folder / "m");
  for (char const* name : {"config.json", "model.safetensors"}) {
    auto const path = folder / "m" / name;
    test::damaged_file file(path, test::read_file(path));
    std::size_t const end =
        std::string_view(name) == "config.json" ? file.good().size() : file.good().find("}}") + 2;
    for (std::size_t bit = 0; bit < end * 8; bit += 3)  // each bit of a byte in turn
      file.with_bit_flipped(bit, [&] {
        std::size_t const before = test::bytes_requested;
        auto const text = error_of([&] { read_all(*open_weights(folder / "m")); });
        auto const asked = test::bytes_requested - before;
        REQUIRE(asked < 2000000);
        REQUIRE(text.find('\n') == std::string::npos);
      });
  }
  CHECK(refusal_of(folder / "m").empty());
}
