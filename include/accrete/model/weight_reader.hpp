#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <string>

#include "accrete/core/view.hpp"
#include "accrete/io/weight_source.hpp"
#include "accrete/model/parameter.hpp"
#include "accrete/tensor/tensor.hpp"

namespace accrete::inline v0::model {

/// A gain's or bias' contiguous numbers, however they lie, as the one row that files hold. // [1, n]
template <class T, class Space>
view<T, 2, Space> as_row(view<T, 2, Space> const& v) {
  return {v.data, {1, v.size()}};
}

/// Brings weights from a file to their place in a backend's memory and number format. Where the place is f32
/// host memory the file's rows are decoded straight into it, elsewhere through a buffer of at most a mebibyte
/// (one row, if a row is longer): no tensor is ever held twice.
template <backend B>
class weight_reader {
 public:
  static constexpr index_t buffer_numbers = index_t(1) << 16;  ///< f32, beside as many of the place's

  /// Both must outlive the reader.
  weight_reader(B const& ctx, io::weight_source const& source) : ctx_(ctx), source_(source) {}

  /// The whole weight `hf_name` -> to [rows, columns], contiguous. Throws io_error, shape_error.
  template <class T>
  void read(std::string const& hf_name, view<T, 2, typename B::space> const& to) {
    if constexpr (std::same_as<T, float> && std::same_as<typename B::space, mem::host>) {
      source_.read_rows(hf_name, 0, to);
    } else {
      index_t const columns = to.columns();
      index_t const at_once = (std::max)(index_t(1), (std::min)(to.rows(), buffer_numbers / columns));
      make_room((std::max)(buffer_numbers, columns));
      for (index_t first = 0; first < to.rows(); first += at_once) {
        index_t const rows = (std::min)(at_once, to.rows() - first);
        index_t const count = rows * columns;
        source_.read_rows(hf_name, first, {raw_.data(), {rows, columns}});
        auto* const converted = reinterpret_cast<T*>(converted_.data());
        for (index_t i = 0; i < count; ++i) converted[i] = T(raw_.data()[i]);
        upload(ctx_, view<T const, 1>(converted, {count}), to.slice(first, rows).flat());
      }
    }
  }

 private:
  void make_room(index_t count) {
    if (count <= raw_.size()) return;
    raw_ = tensor<float, 1>({count});
    converted_ = tensor<std::byte, 1>({count * index_t(sizeof(typename B::real))});
  }

  B const& ctx_;
  io::weight_source const& source_;
  tensor<float, 1> raw_;
  tensor<std::byte, 1> converted_;  // of B::scalar or B::real, which is no shorter
};

}  // namespace accrete::inline v0::model
