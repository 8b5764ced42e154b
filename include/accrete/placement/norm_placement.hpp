#pragma once
#include <cmath>
#include <concepts>
#include <cstddef>
#include <iterator>
#include <string>
#include <type_traits>
#include <vector>

#include "accrete/core/view.hpp"
#include "accrete/placement/boundary.hpp"
#include "accrete/wiring/layer_equation.hpp"
#include "accrete/wiring/text.hpp"

namespace accrete::inline v0 {
namespace placement {

/// Which of q, k, v are RMS-normalized per head before the rotation.
enum class head_norm { none, qk, qkv };

/// What a weight is, for init rules.
enum class weight_role { query, key, value, attention_output, gate, up, down };

namespace detail {
template <class T>
inline constexpr bool is_ends = false;
template <class Entry, class Readout>
inline constexpr bool is_ends<ends<Entry, Readout>> = true;
}  // namespace detail

template <class P>
concept has_wiring = requires {
  P::wiring;
  requires wiring::expression<std::remove_cvref_t<decltype(P::wiring)>>;
};
template <class P>
concept has_boundary = requires {
  P::boundary;
  requires detail::is_ends<std::remove_cvref_t<decltype(P::boundary)>>;
};
template <class P>
concept has_name = requires {
  { P::name } -> std::convertible_to<char const*>;
};

}  // namespace placement

/// Where normalization sits: a struct with two static constants (see docs/policies.md#norm_placement).
///   wiring    the residual equation, of a sublayer (`f`) or of a layer (`attn`, `mlp`)
///   boundary  the ends of the stack
/// and, where the method has them, `name`, `head_norms`, `init_std(role, fan_in, fan_out, site)`, `norm_names`.
template <class P>
concept norm_placement = placement::has_wiring<P> && placement::has_boundary<P>;

namespace placement::detail {

// What the ends must be for a stack of `Streams` streams.
template <class Entry, class Readout, int Streams>
constexpr void check_ends(ends<Entry, Readout>) {
  using entry = wiring::program<Entry>;
  using readout = wiring::program<Readout>;
  constexpr auto sublayers = []<class P>(P) { return P::count(wiring::op::apply); };
  constexpr bool no_sublayers = sublayers(entry{}) == 0 && sublayers(readout{}) == 0;
  constexpr bool entry_fits =
      entry::num_inputs == 1 && (entry::num_outputs == 1 || entry::num_outputs == Streams);
  constexpr bool readout_fits = readout::num_outputs == 1 && readout::num_inputs <= Streams;
  static_assert(
      no_sublayers,
      "[accrete] norm_placement: an end of the stack calls a sublayer. 'boundary' may add and normalize "
      "only. See docs/policies.md#norm_placement");
  static_assert(
      entry_fits,
      "[accrete] norm_placement: 'boundary' must make the streams from the embedding x: one value for all "
      "of them, or streams(...) with as many as 'wiring' has. See docs/policies.md#norm_placement");
  static_assert(readout_fits,
                "[accrete] norm_placement: 'boundary' must give the head one value, made from the streams that "
                "'wiring' has. See docs/policies.md#norm_placement");
}

template <class E>
inline constexpr int num_norms = wiring::program<E>::num_gains;
template <class When, class A, class B>
inline constexpr int num_norms<wiring::choice<When, A, B>> =
    num_norms<A> > num_norms<B> ? num_norms<A> : num_norms<B>;

// Everything a placement that has its two members may still get wrong.
template <class P>
constexpr void check_parts() {
  using layer = decltype(wiring::layer_equation(P::wiring));
  constexpr int streams = wiring::equation_traits<layer>::num_streams;
  using both_ends = std::remove_cvref_t<decltype(P::boundary)>;
  []<class Entry, class Readout>(ends<Entry, Readout> e) {
    check_ends<Entry, Readout, streams>(e);
  }(both_ends{});
  if constexpr (requires { P::norm_names; }) {
    constexpr bool one_name_each = std::size(P::norm_names) == std::size_t(num_norms<layer>);
    static_assert(
        one_name_each,
        "[accrete] norm_placement: 'norm_names' must name each norm of a layer once, in evaluation order "
        "(attention's, then the MLP's). See docs/policies.md#norm_placement");
  }
}

}  // namespace placement::detail

/// One readable sentence for each thing that can be missing or wrong, on every compiler.
template <class P>
struct check_norm_placement {
  static_assert(
      placement::has_wiring<P>,
      "[accrete] norm_placement: P needs 'static constexpr auto wiring = <equation>', such as x + f(norm(x)). "
      "See docs/policies.md#norm_placement");
  static_assert(
      placement::has_boundary<P>,
      "[accrete] norm_placement: P needs 'static constexpr auto boundary', one of placement::boundary::{none, "
      "final_norm, entry_norm, both} or make_ends(entry, readout). See docs/policies.md#norm_placement");
  static constexpr bool parts_hold = [] {
    if constexpr (placement::has_wiring<P> && placement::has_boundary<P>) placement::detail::check_parts<P>();
    return true;
  }();
  static_assert(parts_hold);
};

namespace placement {

/// The equation of a layer under P.
template <norm_placement P>
using layer_of = decltype(wiring::layer_equation(P::wiring));
template <norm_placement P>
inline constexpr int num_streams = wiring::equation_traits<layer_of<P>>::num_streams;

/// The name reports use; a policy without one is called by its equation.
template <norm_placement P>
std::string name_of() {
  if constexpr (has_name<P>) {
    return P::name;
  } else {
    return wiring::equation_text(layer_of<P>{});
  }
}

/// Standard deviation of a weight's init. The study's students draw everything at 0.02.
template <norm_placement P>
double init_std(weight_role role, index_t fan_in, index_t fan_out, wiring::site where) {
  if constexpr (requires { P::init_std(role, fan_in, fan_out, where); }) {
    return P::init_std(role, fan_in, fan_out, where);
  } else {
    return 0.02;
  }
}

template <norm_placement P>
constexpr head_norm head_norms_of() {
  if constexpr (requires { P::head_norms; }) {
    return P::head_norms;
  } else {
    return head_norm::none;
  }
}

/// Hugging Face's name of a layer's norm number `gain` of `num_gains`, without ".weight".
template <norm_placement P>
std::string norm_name(int gain, int num_gains) {
  if constexpr (requires { P::norm_names; }) {
    return P::norm_names[std::size_t(gain)];
  } else {
    int const half = (num_gains + 1) / 2;  // an equation in f serves attention first, then the MLP
    return gain < half ? "attn_norm_" + std::to_string(gain) : "mlp_norm_" + std::to_string(gain - half);
  }
}

/// Names of the norms of the layer at `where`, in evaluation order, without ".weight".
template <norm_placement P>
std::vector<std::string> norm_names_at(wiring::site where) {
  std::vector<std::string> names;
  wiring::with_program(layer_of<P>{}, where, [&]<class Program>(Program) {
    for (int g = 0; g < Program::num_gains; ++g) names.push_back(norm_name<P>(g, Program::num_gains));
  });
  return names;
}

}  // namespace placement
}  // namespace accrete::inline v0
