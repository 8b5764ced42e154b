#pragma once
#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "accrete/core/error.hpp"
#include "accrete/data/tokenizer.hpp"
#include "accrete/io/message_text.hpp"
#include "accrete/io/weight_source.hpp"
#include "accrete/io/weights.hpp"
#include "accrete/model/fingerprint.hpp"
#include "accrete/model/teacher.hpp"

namespace accrete::inline v0 {
namespace model::detail {

/// A stack of another wiring would take the same weights and give other numbers.
template <norm_placement P>
void require_wiring(io::model_config const& c, std::filesystem::path const& path) {
  using pre_layer = placement::layer_of<placement::pre>;
  auto const mine = wiring::equation_text(placement::layer_of<P>{});
  auto const refuse = [&](std::string_view got, std::string_view expected) {
    // Long texts that begin alike show from a little before they part.
    auto const part = std::size_t(
        std::mismatch(got.begin(), got.end(), expected.begin(), expected.end()).first - got.begin());
    constexpr std::size_t lead = 40;
    auto const shown = [&](std::string_view text) {
      return io::name_text(part > 2 * lead ? "... " + std::string(text.substr(part - lead))
                                           : std::string(text));
    };
    throw io_error("load_teacher " + io::path_text(path), "layers wired as " + shown(got), shown(expected),
                   "pass the placement it was saved with to load_teacher");
  };
  if (c.layer_equation.empty()) {
    if (!std::is_same_v<placement::layer_of<P>, pre_layer>) refuse(wiring::equation_text(pre_layer{}), mine);
    return;
  }
  if (c.layer_equation != mine) refuse(c.layer_equation, mine);
  auto const all = wiring_fingerprint<P>(int(c.num_hidden_layers), c.depth_of_constants());
  if (c.wiring != all) refuse(c.wiring, all);  // the same equation with other constants, or between other ends
}

/// The tokenizer beside some weights, where there is one. Throws io_error for one of more tokens than the model has
/// rows.
std::optional<data::tokenizer> tokenizer_of(io::weight_source const& source, std::filesystem::path const& path);

}  // namespace model::detail

/// Opens a GGUF file (with the tokenizer inside it) or a Hugging Face directory (with its tokenizer.json, where
/// there is one) and reads the whole model into the backend's memory. The tokenizer may have fewer tokens than
/// the model has rows, as padded models do, never more. `max_positions` bounds documents and is cut to what the
/// model was made for. A student that `save_pretrained` wrote under another placement than pre-norm is opened
/// with that placement: `load_teacher<backend>(path, {}, 8192, placement::post{})`. Throws io_error.
template <backend B, norm_placement P = placement::pre>
teacher<B> load_teacher(std::filesystem::path const& path, B ctx = {}, index_t max_positions = 8192,
                        P placement = {}) {
  auto const source = io::open_weights(path);
  model::detail::require_wiring<P>(source->config, path);
  auto words = model::detail::tokenizer_of(*source, path);
  index_t const made_for = source->config.max_position_embeddings;
  index_t const positions = made_for > 0 ? (std::min)(max_positions, made_for) : max_positions;
  return teacher<B>(std::move(ctx), *source, std::move(words), positions, placement);
}

}  // namespace accrete::inline v0

#if !defined(ACCRETE_COMPILED)
#include "accrete/model/detail/load_teacher_body.hpp"
#endif
