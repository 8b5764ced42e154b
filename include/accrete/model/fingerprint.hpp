#pragma once
#include <string>
#include <type_traits>
#include <utility>

#include "accrete/growth/schedule.hpp"
#include "accrete/placement/norm_placement.hpp"
#include "accrete/wiring/constants.hpp"
#include "accrete/wiring/text.hpp"

namespace accrete::inline v0::model {

namespace detail {
/// The fewest digits that come back to the same bits.
std::string number_text(double value);
}  // namespace detail

/// What a stack computes from its weights, as text: the equation of every layer with the values of its
/// constants, and the ends.
template <norm_placement P>
std::string wiring_fingerprint(int num_layers, int final_depth) {
  std::string text;
  std::string last;
  for (int l = 0; l < num_layers; ++l) {
    wiring::site const where{l, final_depth};
    auto layer = wiring::with_program(placement::layer_of<P>{}, where, [&]<class Program>(Program) {
      auto words = wiring::text<Program>();
      for (double const constant : wiring::constants_at<Program>(where)) words += " " + detail::number_text(constant);
      return words;
    });
    if (layer != last) text += "from " + std::to_string(l) + ": " + layer + "; ";
    last = std::move(layer);
  }
  return text + "ends " + wiring::equation_text(P::boundary.entry) + " and " +
         wiring::equation_text(P::boundary.readout);
}

/// Everything of a placement that changes numbers, as text: wiring, head norms, init. A policy that was edited
/// gives another text, whatever it is called.
template <norm_placement P>
std::string fingerprint(int depth) {
  std::string text =
      wiring_fingerprint<P>(depth, depth) + "; head norms " + std::to_string(int(placement::head_norms_of<P>()));
  std::string last;
  for (int l = 0; l < depth; ++l) {
    std::string init;
    for (auto role :
         {placement::weight_role::query, placement::weight_role::value,
          placement::weight_role::attention_output, placement::weight_role::gate, placement::weight_role::down})
      init += " " + detail::number_text(placement::init_std<P>(role, 1000, 500, {l, depth}));
    if (init != last) text += "; init from " + std::to_string(l) + ":" + init;
    last = std::move(init);
  }
  return text;
}

/// Everything of a plan that changes numbers.
std::string fingerprint(growth::plan_view plan);

}  // namespace accrete::inline v0::model

#if !defined(ACCRETE_COMPILED)
#include "accrete/model/detail/fingerprint_body.hpp"
#endif
