#pragma once
#include <concepts>
#include <cstddef>
#include <string>

#include "accrete/core/error.hpp"
#include "accrete/core/view.hpp"
#include "accrete/io/detail/quantized_blocks.hpp"
#include "accrete/io/detail/rows.hpp"
#include "accrete/io/ggml_type.hpp"
#include "accrete/io/gguf.hpp"
#include "accrete/io/message_text.hpp"

namespace accrete::inline v0::io {

namespace detail {

/// `blocks` blocks of a quantized type, one after the other.
template <class T>
void unpack_blocks(void (*unpack)(std::byte const*, T*), ggml_type type, index_t blocks, std::byte const* from,
                   T* to) {
  auto const layout = *layout_of(type);
  for (index_t b = 0; b < blocks; ++b, from += layout.bytes, to += layout.block) unpack(from, to);
}

/// One row of `columns` numbers. False where the type is not known.
template <class T>
bool dequantize_row(ggml_type type, std::byte const* from, index_t columns, T* to) {
  switch (type) {
    case ggml_type::f32:
      widen(plain_number::f32, from, to, columns);
      return true;
    case ggml_type::f16:
      widen(plain_number::f16, from, to, columns);
      return true;
    case ggml_type::bf16:
      widen(plain_number::bf16, from, to, columns);
      return true;
    case ggml_type::q4_0:
      unpack_blocks(unpack_q4_0<T>, type, columns / 32, from, to);
      return true;
    case ggml_type::q4_1:
      unpack_blocks(unpack_q4_1<T>, type, columns / 32, from, to);
      return true;
    case ggml_type::q5_0:
      unpack_blocks(unpack_q5_0<T>, type, columns / 32, from, to);
      return true;
    case ggml_type::q5_1:
      unpack_blocks(unpack_q5_1<T>, type, columns / 32, from, to);
      return true;
    case ggml_type::q8_0:
      unpack_blocks(unpack_q8_0<T>, type, columns / 32, from, to);
      return true;
    case ggml_type::q4_k:
      unpack_blocks(unpack_q4_k<T>, type, columns / 256, from, to);
      return true;
    case ggml_type::q5_k:
      unpack_blocks(unpack_q5_k<T>, type, columns / 256, from, to);
      return true;
    case ggml_type::q6_k:
      unpack_blocks(unpack_q6_k<T>, type, columns / 256, from, to);
      return true;
  }
  return false;
}

}  // namespace detail

[[nodiscard]] inline bool can_dequantize(ggml_type type) {
  return detail::dequantize_row<float>(type, nullptr, 0, nullptr);
}
/// Throws io_error that names the type where dequantize_rows would not know it.
inline void require_dequantizable(gguf_tensor const& tensor, std::string const& where = "io::dequantize") {
  if (!can_dequantize(tensor.type))
    throw io_error(where + ": tensor " + name_text(tensor.name), "numbers in " + name_of(tensor.type),
                   "F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K or Q6_K",
                   "convert the model to one of them");
}

/// Rows [first_row, first_row + out.rows()) of a tensor, as numbers. // out: [rows, tensor.columns()]
/// Computed in binary32, as every other reader of these files does, then widened: float and double students see
/// the same weights. A vector is one row. Throws shape_error on a range that is not there, io_error on a type.
template <std::floating_point T>
void dequantize_rows(gguf_tensor const& tensor, index_t first_row, view<T, 2> out) {
  require_dequantizable(tensor);
  index_t const columns = tensor.columns();
  detail::require_rows([&] { return "io::dequantize: tensor " + name_text(tensor.name); }, tensor.rows(),
                       columns, first_row, out);
  auto const layout = *layout_of(tensor.type);
  index_t const stride = columns / layout.block * layout.bytes;
  for (index_t r = 0; r < out.rows(); ++r)
    detail::dequantize_row(tensor.type, tensor.bytes.data() + (first_row + r) * stride, columns, out.row(r));
}

}  // namespace accrete::inline v0::io
