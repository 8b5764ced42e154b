#pragma once
#include <type_traits>

#include "accrete/model/parameter.hpp"
#include "accrete/tensor/tensor.hpp"

namespace accrete::inline v0::model {

template <backend B>
inline constexpr bool one_format = std::is_same_v<typename B::scalar, typename B::real>;

/// Numbers of a residual stream as products read them: themselves, or a copy in `room`. // [T, D]
template <backend B>
matrix_in<B> as_operand(B const& ctx, real_matrix_in<B> const& numbers,
                        [[maybe_unused]] matrix<B> const& room) {
  if constexpr (one_format<B>) {
    return numbers;
  } else {
    auto const rows = room.slice(0, numbers.rows());
    copy(ctx, numbers, rows);
    return rows;
  }
}

/// The same with room of its own, which grows to the largest request.
template <backend B>
class operand_room {
 public:
  matrix_in<B> hold(B const& ctx, real_matrix_in<B> const& numbers) {
    if (!one_format<B> && numbers.size() > room_.size()) room_ = decltype(room_)(numbers.extents);
    return as_operand<B>(ctx, numbers, matrix<B>(room_.data(), numbers.extents));
  }
  [[nodiscard]] std::size_t bytes() const { return room_.bytes(); }

 private:
  tensor<typename B::scalar, 2, typename B::space> room_;
};

}  // namespace accrete::inline v0::model
