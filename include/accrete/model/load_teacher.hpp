#pragma once
#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <tuple>
#include <type_traits>
#include <utility>

#include "accrete/core/error.hpp"
#include "accrete/data/gguf_tokenizer.hpp"
#include "accrete/data/hf_tokenizer.hpp"
#include "accrete/io/gguf_weights.hpp"
#include "accrete/io/message_text.hpp"
#include "accrete/io/weights.hpp"
#include "accrete/model/end_norms.hpp"
#include "accrete/model/teacher.hpp"

namespace accrete::inline v0 {
namespace model::detail {

/// A stack of another equation would take the same weights and give other numbers.
template <norm_placement P>
void require_wiring(io::model_config const& c, std::filesystem::path const& path) {
  using layer = placement::layer_of<P>;
  bool const pre_norm = std::is_same_v<layer, placement::layer_of<placement::pre>>;
  auto const mine = wiring::equation_text(layer{});
  auto const theirs = c.layer_equation.empty() ? wiring::equation_text(placement::layer_of<placement::pre>{})
                                               : c.layer_equation;
  if (mine != theirs || (c.layer_equation.empty() && !pre_norm))
    throw io_error("load_teacher " + io::path_text(path),
                   "layers wired as " + io::name_text(theirs) +
                       (c.placement.empty() ? "" : " (" + io::name_text(c.placement) + ")"),
                   io::name_text(mine), "pass the placement it was saved with to load_teacher");
  if (c.layer_equation.empty()) return;
  std::set<std::string> norms(c.norms.begin(), c.norms.end());
  std::set<std::string> wanted;
  using entry = wiring::program<std::remove_cvref_t<decltype(P::boundary.entry)>>;
  using readout = wiring::program<std::remove_cvref_t<decltype(P::boundary.readout)>>;
  for (auto const& n : end_norm_names("entry_norm", entry::num_gains)) wanted.insert("model." + n + ".weight");
  for (auto const& n : end_norm_names("norm", readout::num_gains)) wanted.insert("model." + n + ".weight");
  for (int l = 0; l < int(c.num_hidden_layers); ++l)
    for (auto const& n : placement::norm_names_at<P>({l, c.depth_of_constants()}))
      wanted.insert("model.layers." + std::to_string(l) + "." + n + ".weight");
  for (auto const& [has, lacks, what] :
       {std::tuple{&norms, &wanted, "a norm "}, std::tuple{&wanted, &norms, "no norm "}})
    for (auto const& name : *has)
      if (lacks->count(name) == 0)
        throw io_error("load_teacher " + io::path_text(path), what + io::name_text(name),
                       "the norms of " + io::name_text(placement::name_of<P>()),
                       "pass the placement it was saved with to load_teacher");
}

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
  std::optional<data::tokenizer> words;
  std::error_code ignored;
  if (auto const* const gguf = dynamic_cast<io::gguf_weights const*>(source.get()))
    words.emplace(data::tokenizer_spec_from_gguf(gguf->file()));
  else if (std::filesystem::exists(path / "tokenizer.json", ignored))
    words.emplace(data::tokenizer_spec_from_hf(path));
  if (words && words->vocab_size() > source->config.vocab_size)
    throw io_error("load_teacher " + io::path_text(path),
                   "a tokenizer of " + std::to_string(words->vocab_size()) + " tokens",
                   "at most the model's " + std::to_string(source->config.vocab_size),
                   "the tokenizer is another model's");
  index_t const made_for = source->config.max_position_embeddings;
  index_t const positions = made_for > 0 ? (std::min)(max_positions, made_for) : max_positions;
  return teacher<B>(std::move(ctx), *source, std::move(words), positions, placement);
}

}  // namespace accrete::inline v0
