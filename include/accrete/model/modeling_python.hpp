#pragma once
#include <algorithm>
#include <cstddef>
#include <string>
#include <type_traits>
#include <vector>

#include "accrete/core/config.hpp"
#include "accrete/core/format.hpp"
#include "accrete/model/detail/modeling_python.hpp"
#include "accrete/model/end_norms.hpp"
#include "accrete/placement/norm_placement.hpp"
#include "accrete/wiring/constants.hpp"
#include "accrete/wiring/python.hpp"

namespace accrete::inline v0::model {
namespace detail {

inline std::string python_method(std::string const& name, std::string const& before,
                                 wiring::python_body const& body) {
  std::string text = fmt::format("    def {}(self, {}{}):\n", name, before, body.arguments);
  for (auto const& line : body.lines) text += "        " + line + "\n";
  return text;
}
inline std::string python_tuple(std::vector<std::string> const& names) {
  std::string text = "(";
  for (auto const& n : names) text += '"' + n + "\", ";
  if (names.size() > 1) text.resize(text.size() - 2);
  if (names.size() == 1) text.pop_back();
  return text + ")";
}

}  // namespace detail

/// modeling_accrete.py of a stack of `num_layers` layers under P: a model that `transformers` opens with
/// trust_remote_code. The equations of its layers and ends are written from P's wiring, its constants are those
/// of each layer at `final_depth`; everything else is the same for all placements.
template <norm_placement P>
std::string modeling_python(int num_layers, int final_depth) {
  using entry = wiring::program<std::remove_cvref_t<decltype(P::boundary.entry)>>;
  using readout = wiring::program<std::remove_cvref_t<decltype(P::boundary.readout)>>;
  std::vector<std::string> kinds, constants;
  std::vector<std::size_t> kind_of;
  for (int l = 0; l < num_layers; ++l) {
    wiring::site const where{l, final_depth};
    wiring::with_program(placement::layer_of<P>{}, where, [&]<class Program>(Program) {
      auto const norms = placement::norm_names_at<P>(where);
      auto const body = wiring::python<Program>(norms);
      std::string text = "    \"\"\"" + wiring::text<Program>();
      for (std::size_t k = 0; k < body.constants.size(); ++k)
        text += fmt::format("; c{} = {}", k, body.constants[k]);
      text += "\"\"\"\n\n    norms = " + detail::python_tuple(norms) + "\n\n" +
              detail::python_method("equation", "attn, mlp, ", body);
      auto const known = std::find(kinds.begin(), kinds.end(), text);
      kind_of.push_back(std::size_t(known - kinds.begin()));
      if (known == kinds.end()) kinds.push_back(text);
      // Numbers as `{}` writes them come back to the same bits.
      constants.push_back(
          fmt::format("    [{}],  # layer {}\n", fmt::join(wiring::constants_at<Program>(where), ", "), l));
    });
  }
  std::string text = fmt::format("# A model whose layers are wired as {}, written by accrete {}.{}.\n",
                                 placement::name_of<P>(), ACCRETE_VERSION_MAJOR, ACCRETE_VERSION_MINOR);
  text += detail::python_before;
  for (std::size_t k = 0; k < kinds.size(); ++k)
    text += fmt::format("class DecoderLayer{}(DecoderLayer):\n{}\n\n", k, kinds[k]);
  text += "LAYERS = [";
  for (std::size_t k = 0; k < kinds.size(); ++k) text += fmt::format("{}DecoderLayer{}", k ? ", " : "", k);
  text += fmt::format("]\nKINDS = [{}]  # of each layer\nCONSTANTS = [\n{}]\n", fmt::join(kind_of, ", "),
                      fmt::join(constants, ""));
  text += fmt::format("NUM_STREAMS = {}\nNUM_READ = {}\n\n\n", placement::num_streams<P>, readout::num_inputs);

  auto const entry_norms = end_norm_names("entry_norm", entry::num_gains);
  auto const readout_norms = end_norm_names("norm", readout::num_gains);
  auto all = entry_norms;
  all.insert(all.end(), readout_norms.begin(), readout_norms.end());
  text += fmt::format(
      "class Ends:\n    \"\"\"What the streams start from and what the head reads.\"\"\"\n\n"
      "    end_norms = {}\n\n{}\n{}",
      detail::python_tuple(all), detail::python_method("entry", "", wiring::python<entry>(entry_norms)),
      detail::python_method("readout", "", wiring::python<readout>(readout_norms)));
  return text + detail::python_after;
}

}  // namespace accrete::inline v0::model
