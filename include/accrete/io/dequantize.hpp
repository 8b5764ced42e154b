#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>

#include "accrete/core/error.hpp"
#include "accrete/core/view.hpp"
#include "accrete/io/bytes.hpp"
#include "accrete/io/detail/rows.hpp"
#include "accrete/io/ggml_type.hpp"
#include "accrete/io/gguf.hpp"
#include "accrete/io/half.hpp"
#include "accrete/io/message_text.hpp"

namespace accrete::inline v0::io {

namespace detail {

// A block of 32: the scale d (and minimum m) as half floats, then 4-bit codes, of which byte i holds number i
// in its low half and number i + 16 in its high half. A code times a half float is exact in binary32, so a
// fused multiply-add gives the same bits as two operations and the values do not depend on compiler flags.
template <class T>
void unpack_q4_0(std::byte const* block, T* out) {
  float const d = half_to_float(load<std::uint16_t>(block));
  for (int i = 0; i < 16; ++i) {
    int const codes = std::to_integer<int>(block[2 + i]);
    out[i] = T(float((codes & 15) - 8) * d);
    out[i + 16] = T(float((codes >> 4) - 8) * d);
  }
}
template <class T>
void unpack_q4_1(std::byte const* block, T* out) {
  float const d = half_to_float(load<std::uint16_t>(block));
  float const m = half_to_float(load<std::uint16_t>(block + 2));
  for (int i = 0; i < 16; ++i) {
    int const codes = std::to_integer<int>(block[4 + i]);
    out[i] = T(float(codes & 15) * d + m);
    out[i + 16] = T(float(codes >> 4) * d + m);
  }
}
template <class T>
void unpack_q8_0(std::byte const* block, T* out) {
  float const d = half_to_float(load<std::uint16_t>(block));
  for (int i = 0; i < 32; ++i) out[i] = T(float(load<std::int8_t>(block + 2 + i)) * d);
}

}  // namespace detail

[[nodiscard]] constexpr bool can_dequantize(ggml_type type) {
  switch (type) {
    case ggml_type::f32:
    case ggml_type::f16:
    case ggml_type::bf16:
    case ggml_type::q4_0:
    case ggml_type::q4_1:
    case ggml_type::q8_0:
      return true;
  }
  return false;
}
/// Throws io_error that names the type where dequantize_rows would not know it.
inline void require_dequantizable(gguf_tensor const& tensor, std::string const& where = "io::dequantize") {
  if (!can_dequantize(tensor.type))
    throw io_error(where + ": tensor " + name_text(tensor.name), "numbers in " + name_of(tensor.type),
                   "F32, F16, BF16, Q8_0, Q4_0 or Q4_1", "convert the model to one of them");
}

/// Rows [first_row, first_row + out.rows()) of a tensor, as numbers. // out: [rows, tensor.columns()]
/// Computed in binary32, as every other reader of these files does, then widened: float and double students see
/// the same weights. A vector is one row. Throws shape_error on a range that is not there, io_error on a type.
template <std::floating_point T>
void dequantize_rows(gguf_tensor const& tensor, index_t first_row, view<T, 2> out) {
  require_dequantizable(tensor);
  index_t const columns = tensor.columns();
  detail::require_rows("io::dequantize: tensor " + name_text(tensor.name), tensor.rows(), columns, first_row,
                       out);
  auto const layout = *layout_of(tensor.type);
  index_t const blocks = columns / layout.block;
  for (index_t r = 0; r < out.rows(); ++r) {
    std::byte const* block = tensor.bytes.data() + (first_row + r) * blocks * layout.bytes;
    T* to = out.row(r);
    switch (tensor.type) {
      case ggml_type::f32:
        detail::widen(detail::plain_number::f32, block, to, columns);
        break;
      case ggml_type::f16:
        detail::widen(detail::plain_number::f16, block, to, columns);
        break;
      case ggml_type::bf16:
        detail::widen(detail::plain_number::bf16, block, to, columns);
        break;
      case ggml_type::q4_0:
        for (index_t b = 0; b < blocks; ++b, block += 18, to += 32) detail::unpack_q4_0(block, to);
        break;
      case ggml_type::q4_1:
        for (index_t b = 0; b < blocks; ++b, block += 20, to += 32) detail::unpack_q4_1(block, to);
        break;
      case ggml_type::q8_0:
        for (index_t b = 0; b < blocks; ++b, block += 34, to += 32) detail::unpack_q8_0(block, to);
        break;
    }
  }
}

}  // namespace accrete::inline v0::io
