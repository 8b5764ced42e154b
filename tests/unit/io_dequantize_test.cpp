#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "accrete/core/bfloat16.hpp"
#include "accrete/core/half.hpp"
#include "accrete/io/dequantize.hpp"
#include "accrete/io/safetensors.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/teacher.hpp"

using namespace accrete::io;
using accrete::index_t;
using accrete::view;
using test::error_of;

namespace {

std::vector<std::byte> from_hex(std::string const& text) {
  std::vector<std::byte> out;
  for (std::size_t i = 0; i < text.size(); i += 2)
    out.push_back(std::byte(std::stoi(text.substr(i, 2), nullptr, 16)));
  return out;
}

template <class T>
std::vector<T> numbers(gguf_tensor const& t, index_t first, index_t rows) {
  std::vector<T> out(std::size_t(rows * t.columns()));
  dequantize_rows(t, first, view<T, 2>(out.data(), {rows, t.columns()}));
  return out;
}

// Depends on every bit of every value and on their order; tests/reference/gguf_constants.py computes the same
// from the `gguf` package.
std::uint64_t checksum(std::vector<float> const& values) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &values[i], 4);
    sum += bits * (2 * std::uint64_t(i) + 1);
  }
  return sum;
}

}  // namespace

// Blocks and values of PyPI's gguf 0.19: tests/reference/gguf_constants.py prints them.
TEST_CASE("dequantize_rows gives the bits of the gguf package on single blocks", "[io][dequantize]") {
  struct known {
    ggml_type type;
    char const* block;
    std::array<float, 6> values;  // numbers 0, 1, 15, 16, 17, 31
  };
  for (known const& k :
       {known{ggml_type::q4_0,
              "0935487927452775489c86760a698885386a",
              {0.0f, 0x1.424p-2f, 0x1.424p-1f, -0x1.424p+0f, -0x1.424p-2f, -0x1.424p-1f}},
        known{ggml_type::q4_1,
              "1d3409c15a8b295638965abfa8970c8baaa64a8c",
              {0x1.b4p-5f, 0x1.3dcp-2f, 0x1.228p-1f, -0x1.3b7p+0f, -0x1.d8p-2f, -0x1.d8p-2f}},
        known{ggml_type::q8_0,
              "1325000ff2d3e9ce0344e7e1191205d1ff23bce9a0bfa3f4c00e08f781e5fe06b3e8",
              {0.0f, 0x1.3074p-2f, 0x1.6332p-1f, -0x1.590cp+0f, -0x1.d2d4p-2f, -0x1.e72p-2f}}}) {
    INFO(name_of(k.type));
    auto const bytes = from_hex(k.block);
    gguf_tensor const t{"t", k.type, {32}, bytes};
    auto const single = numbers<float>(t, 0, 1);
    auto const wide = numbers<double>(t, 0, 1);
    std::array<std::size_t, 6> const at{0, 1, 15, 16, 17, 31};
    for (std::size_t i = 0; i < at.size(); ++i) {
      CHECK(single[at[i]] == k.values[i]);
      CHECK(wide[at[i]] == double(k.values[i]));
    }
  }
}

// Random blocks with scales of every kind, by tests/reference/gguf_quants.py.
TEST_CASE("dequantize_rows gives the bits of the gguf package on blocks of every type", "[io][dequantize]") {
  safetensors_file const fixture(std::filesystem::path(__FILE__).parent_path() /
                                 "../reference/gguf_quants.safetensors");
  for (auto const type : {ggml_type::q4_0, ggml_type::q4_1, ggml_type::q5_0, ggml_type::q5_1, ggml_type::q8_0,
                          ggml_type::q4_k, ggml_type::q5_k, ggml_type::q6_k, ggml_type::f16, ggml_type::bf16}) {
    auto const& blocks = fixture.tensor(name_of(type) + ".blocks");
    auto const& values = fixture.tensor(name_of(type) + ".values");
    index_t const rows = values.shape[0], columns = values.shape[1];
    INFO(name_of(type));
    auto const layout = *layout_of(type);
    REQUIRE(index_t(blocks.bytes.size()) == rows * columns / layout.block * layout.bytes);
    gguf_tensor const t{"t", type, {rows, columns}, blocks.bytes};
    auto const single = numbers<float>(t, 0, rows);
    REQUIRE(std::memcmp(single.data(), values.bytes.data(), values.bytes.size()) == 0);
    auto const wide = numbers<double>(t, rows / 2, rows - rows / 2);
    for (std::size_t i = 0; i < wide.size(); ++i)
      REQUIRE(wide[i] == double(single[std::size_t(rows / 2 * columns) + i]));
  }
}

TEST_CASE("dequantize_rows gives the bits of the gguf package on the teacher", "[io][dequantize][teacher]") {
  gguf_file const file(test::teacher_file());
  auto const& embedding = file.tensor("token_embd.weight");
  auto const& down = file.tensor("blk.29.ffn_down.weight");
  CHECK(embedding.type == ggml_type::q8_0);
  CHECK(down.type == ggml_type::q4_1);
  auto const e = numbers<float>(embedding, 0, 49152);
  auto const d = numbers<float>(down, 0, 576);
  CHECK(e[0] == -0x1.b468p-4f);
  CHECK(e[31] == -0x1.9a6ep-3f);
  CHECK(e[28 * 576 + 100] == 0x1.0e18p-3f);
  CHECK(e[49151 * 576 + 575] == -0x1.55ap-5f);
  CHECK(d[0] == -0x1.17ep-2f);
  CHECK(d[32] == 0x1.b4p-6f);
  CHECK(d[100 * 1536 + 777] == 0x1.6bp-5f);
  CHECK(d[575 * 1536 + 1535] == 0x1.dp-5f);
  CHECK(checksum(e) == 0xee6fa1c00885e840ull);
  CHECK(checksum(d) == 0x77afc6edc381ae00ull);
  CHECK(checksum(numbers<float>(file.tensor("blk.0.attn_k.weight"), 0, 192)) == 0x65fca296af3bac00ull);
  CHECK(checksum(numbers<float>(file.tensor("output_norm.weight"), 0, 1)) == 0x144868d320000ull);
}

TEST_CASE("dequantize_rows widens F32, F16 and BF16 exactly", "[io][dequantize]") {
  std::vector<std::uint16_t> const halves{0x3C00, 0xC000, 0x0001, 0x83FF, 0x7BFF, 0x0400, 0x8000, 0x3555};
  gguf_tensor const h{"h", ggml_type::f16, {2, 4}, std::as_bytes(std::span(halves))};
  CHECK(numbers<float>(h, 0, 2) ==
        std::vector<float>{1, -2, 0x1p-24f, -1023 * 0x1p-24f, 65504, 0x1p-14f, -0.0f, 0x1.554p-2f});
  gguf_tensor const b{"b", ggml_type::bf16, {2, 4}, std::as_bytes(std::span(halves))};
  CHECK(numbers<double>(b, 1, 1)[3] == 0x1.aap-21);  // 0x3555
  std::vector<float> const plain{1, 2, 3, 0.1f, -5, 6};
  gguf_tensor const f{"f", ggml_type::f32, {3, 2}, std::as_bytes(std::span(plain))};
  CHECK(numbers<float>(f, 1, 2) == std::vector<float>{3, 0.1f, -5, 6});
  CHECK(numbers<double>(f, 1, 1)[1] == double(0.1f));
}

TEST_CASE("half and bfloat16 keep infinities and NaN", "[io][dequantize]") {
  CHECK(float(accrete::half::from_bits(0x7C00)) == std::numeric_limits<float>::infinity());
  CHECK(float(accrete::half::from_bits(0xFC00)) == -std::numeric_limits<float>::infinity());
  CHECK(std::isnan(float(accrete::half::from_bits(0x7E00))));
  CHECK(float(accrete::bfloat16::from_bits(0xFF80)) == -std::numeric_limits<float>::infinity());
  CHECK(std::isnan(float(accrete::bfloat16::from_bits(0x7FC0))));
}

TEST_CASE("dequantize_rows reads ranges of rows into wider buffers", "[io][dequantize]") {
  std::vector<float> const plain{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  gguf_tensor const t{"t", ggml_type::f32, {2, 2, 3}, std::as_bytes(std::span(plain))};
  CHECK(t.rows() == 4);
  std::vector<float> room(10, -1);
  dequantize_rows(t, 2, view<float, 2>(room.data(), {2, 3}, 5));
  CHECK(room == std::vector<float>{6, 7, 8, -1, -1, 9, 10, 11, -1, -1});
  dequantize_rows(t, 4, view<float, 2>(room.data(), {0, 3}));  // no rows: nothing to do
}

TEST_CASE("dequantize_rows refuses rows that are not there and types it does not know", "[io][dequantize]") {
  std::vector<float> const plain(12);
  gguf_tensor t{"t", ggml_type::f32, {4, 3}, std::as_bytes(std::span(plain))};
  std::vector<float> room(30);
  auto const refusal = [&](index_t first, index_t rows, index_t columns) {
    return error_of([&] { dequantize_rows(t, first, view<float, 2>(room.data(), {rows, columns})); });
  };
  constexpr index_t most = (std::numeric_limits<index_t>::max)();
  for (auto const& text : {refusal(0, 4, 2), refusal(0, 5, 3), refusal(4, 1, 3), refusal(-1, 2, 3),
                           refusal(most, 1, 3), refusal(1, most, 3)})
    CHECK(test::one_line(text));
  t.type = ggml_type(10);
  CHECK_THAT(refusal(0, 1, 3), Catch::ContainsSubstring("tensor 't'") && Catch::ContainsSubstring("Q2_K"));
}
