#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace accrete::inline v0::io {

/// How GGUF stores a tensor's numbers. The values are the file's own; 4, 5, 31-33 and 36-38 were withdrawn.
enum class ggml_type : std::uint32_t {
  f32 = 0,
  f16 = 1,
  q4_0 = 2,
  q4_1 = 3,
  q5_0 = 6,
  q5_1 = 7,
  q8_0 = 8,
  q4_k = 12,
  q5_k = 13,
  q6_k = 14,
  bf16 = 30,
};

/// Numbers come in blocks that share a scale: `block` numbers take `bytes` bytes.
struct ggml_layout {
  std::uint32_t id;
  char const* name;
  std::uint32_t block;
  std::uint32_t bytes;
};

/// Every type that has a size, so that a file with one we do not decode is still read and refused by name.
inline constexpr std::array<ggml_layout, 32> ggml_layouts{{
    {0, "F32", 1, 4},         {1, "F16", 1, 2},         {2, "Q4_0", 32, 18},      {3, "Q4_1", 32, 20},
    {6, "Q5_0", 32, 22},      {7, "Q5_1", 32, 24},      {8, "Q8_0", 32, 34},      {9, "Q8_1", 32, 40},
    {10, "Q2_K", 256, 84},    {11, "Q3_K", 256, 110},   {12, "Q4_K", 256, 144},   {13, "Q5_K", 256, 176},
    {14, "Q6_K", 256, 210},   {15, "Q8_K", 256, 292},   {16, "IQ2_XXS", 256, 66}, {17, "IQ2_XS", 256, 74},
    {18, "IQ3_XXS", 256, 98}, {19, "IQ1_S", 256, 50},   {20, "IQ4_NL", 32, 18},   {21, "IQ3_S", 256, 110},
    {22, "IQ2_S", 256, 82},   {23, "IQ4_XS", 256, 136}, {24, "I8", 1, 1},         {25, "I16", 1, 2},
    {26, "I32", 1, 4},        {27, "I64", 1, 8},        {28, "F64", 1, 8},        {29, "IQ1_M", 256, 56},
    {30, "BF16", 1, 2},       {34, "TQ1_0", 256, 54},   {35, "TQ2_0", 256, 66},   {39, "MXFP4", 32, 17},
}};

[[nodiscard]] constexpr std::optional<ggml_layout> layout_of(ggml_type type) {
  for (ggml_layout const& each : ggml_layouts)
    if (each.id == std::uint32_t(type)) return each;
  return std::nullopt;
}
[[nodiscard]] inline std::string name_of(ggml_type type) {
  auto const found = layout_of(type);
  return found ? found->name : "type " + std::to_string(std::uint32_t(type));
}

}  // namespace accrete::inline v0::io
