#pragma once
#include <string>
#include <type_traits>
#include <utility>

#include "accrete/core/format.hpp"
#include "accrete/growth/schedule.hpp"
#include "accrete/placement/norm_placement.hpp"
#include "accrete/wiring/constants.hpp"
#include "accrete/wiring/text.hpp"

namespace accrete::inline v0::model {

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
      for (double const constant : wiring::constants_at<Program>(where)) words += fmt::format(" {}", constant);
      return words;
    });
    if (layer != last) text += fmt::format("from {}: {}; ", l, layer);
    last = std::move(layer);
  }
  return text + fmt::format("ends {} and {}", wiring::equation_text(P::boundary.entry),
                            wiring::equation_text(P::boundary.readout));
}

/// Everything of a placement that changes numbers, as text: wiring, head norms, init. A policy that was edited
/// gives another text, whatever it is called.
template <norm_placement P>
std::string fingerprint(int depth) {
  std::string text =
      wiring_fingerprint<P>(depth, depth) + fmt::format("; head norms {}", int(placement::head_norms_of<P>()));
  std::string last;
  for (int l = 0; l < depth; ++l) {
    std::string init;
    for (auto role :
         {placement::weight_role::query, placement::weight_role::value,
          placement::weight_role::attention_output, placement::weight_role::gate, placement::weight_role::down})
      init += fmt::format(" {}", placement::init_std<P>(role, 1000, 500, {l, depth}));
    if (init != last) text += fmt::format("; init from {}:{}", l, init);
    last = std::move(init);
  }
  return text;
}

/// Everything of a plan that changes numbers.
inline std::string fingerprint(growth::plan_view plan) {
  std::string text = fmt::format("{} x {}, text {}:", plan.num_blocks, plan.layers_per_block, int(plan.data));
  for (auto const& p : plan.phases)
    text += fmt::format(" ({} {} {} {} {} {})", p.length, p.active_blocks, int(p.what), int(p.optimizer),
                        int(p.rate), int(p.data));
  return text;
}

}  // namespace accrete::inline v0::model
