#pragma once
#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

namespace accrete::inline v0 {

/// What a step makes again in its backward rather than keep from its forward: less memory for more time, and
/// the same gradients to the last bit.
enum class recomputation {
  none,
  mlp,    ///< gate|up, the widest of what a layer keeps, and sums of attention's output: two products more
  layer,  ///< all of a layer but its input: a forward more, the top layer's excepted
  block,  ///< all of a block of layers but its input: a forward more, the top block's excepted
};

inline constexpr std::array<std::string_view, 4> recomputation_names{"none", "mlp", "layer", "block"};
[[nodiscard]] constexpr std::optional<recomputation> recomputation_of(std::string_view name) {
  for (std::size_t i = 0; i < recomputation_names.size(); ++i)
    if (recomputation_names[i] == name) return static_cast<recomputation>(i);
  return std::nullopt;
}

namespace model {

/// The same for a stack, which knows nothing of blocks: layers are kept or made again in groups.
struct made_again {
  bool mlp = false;  ///< of each layer alone
  int layers = 0;  ///< of a group; 0: nothing but perhaps the MLPs is made again
};
[[nodiscard]] constexpr made_again made_again_by(recomputation r, int layers_of_block) {
  switch (r) {
    case recomputation::mlp:
      return {true, 0};
    case recomputation::layer:
      return {false, 1};
    case recomputation::block:
      return {false, layers_of_block};
    default:
      return {};
  }
}

}  // namespace model

}  // namespace accrete::inline v0
