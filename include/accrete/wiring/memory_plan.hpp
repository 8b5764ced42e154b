#pragma once
#include <algorithm>
#include <array>
#include <cstddef>

#include "accrete/wiring/program.hpp"

namespace accrete::inline v0::wiring {

/// Where a value (or its gradient) lives while a program runs.
struct home {
  enum kind_type { none, input, output, kept, scratch } kind = none;
  int index = -1;
};

/// What the forward must leave behind.
enum class purpose {
  training,   ///< kept values go to memory of their own, one set per layer
  inference,  ///< nothing is kept: every value lives in scratch shared by all layers
};

namespace detail {

/// Hands out the lowest free number and remembers how many were ever in use.
template <int Most>
struct slot_allocator {
  std::array<bool, std::size_t(Most) + 1> used{};
  int peak = 0;
  constexpr int take() {
    int s = 0;
    while (used[std::size_t(s)]) ++s;
    used[std::size_t(s)] = true;
    if (s + 1 > peak) peak = s + 1;
    return s;
  }
  constexpr void give(int s) { used[std::size_t(s)] = false; }
};

}  // namespace detail

/// Homes of the forward's values: inputs and outputs are the caller's, kept ones are numbered (those that can
/// be restored first), the others share scratch buffers by lifetime.
template <class P, purpose For>
struct forward_plan {
  std::array<home, std::size_t(P::size)> value{};
  int num_kept = 0;     ///< kept buffers besides the caller's inputs
  int num_scratch = 0;  ///< scratch buffers alive at once

  static constexpr forward_plan make() {
    forward_plan plan{};
    int num_restored = 0;
    if (For == purpose::training) plan.num_kept = P::num_restored;
    detail::slot_allocator<P::size> slots;
    auto made_at = [](int v) { return P::is_fused(v) ? P::at(v).a : v; };
    std::array<int, std::size_t(P::size)> last{};
    for (int v = 0; v < P::size; ++v) {
      last[std::size_t(v)] = made_at(v);
      for (int u = v + 1; u < P::size; ++u)
        if (P::runs(u) && P::reads(u, v))
          last[std::size_t(v)] = made_at(u) > last[std::size_t(v)] ? made_at(u) : last[std::size_t(v)];
    }
    auto place = [&](int v) {
      home& h = plan.value[std::size_t(v)];
      if (For == purpose::training && P::kept(v)) {
        h = {home::kept, P::restored(v) ? num_restored++ : plan.num_kept++};
      } else if (P::is_output(v)) {
        for (int s = P::num_outputs - 1; s >= 0; --s)
          if (P::outs[std::size_t(s)] == v) h = {home::output, s};
      } else {
        h = {home::scratch, slots.take()};
      }
    };
    for (int i = 0; i < P::size; ++i) {
      if (P::at(i).code == op::input) {
        plan.value[std::size_t(i)] = {home::input, P::at(i).stream};
      } else if (P::runs(i) && !P::is_fused(i)) {
        place(i);
        if (int const n = P::fused_norm_of(i); n >= 0) place(n);
      }
      for (int v = 0; v <= i; ++v) {  // what nobody reads any more
        home const h = plan.value[std::size_t(v)];
        if (h.kind == home::scratch && last[std::size_t(v)] == i) slots.give(h.index);
      }
      for (int v = i + 1; v < P::size; ++v) {  // a fused norm whose readers were all served early
        home const h = plan.value[std::size_t(v)];
        if (h.kind == home::scratch && last[std::size_t(v)] == i) slots.give(h.index);
      }
    }
    plan.num_scratch = slots.peak;
    return plan;
  }
};

/// How a gradient reaches an operand.
enum class flow {
  none,     ///< no gradient goes there
  replace,  ///< first contribution: the operand's buffer is written
  add,      ///< a later one: it is added to
  move,     ///< first contribution of an add, scale or through: the operand takes over the buffer itself
  share,    ///< the same of an add's other operand: the first has read the buffer before this one is added to
};

struct backward_step {
  bool rebuild = false;  ///< make the value again; otherwise pass its gradient on to its operands
  int value = -1;
  flow to_a = flow::none;
  flow to_b = flow::none;
};

/// The backward as a list of steps with a home for every rebuilt value and every gradient. `output` homes are
/// the buffers in which the caller hands in the outputs' gradients (free for reuse once consumed), `input`
/// homes those in which it finds the inputs' gradients. Where the only stream's gradient can be turned from
/// that of the output to that of the input without leaving its buffer, it is: `in_place`.
template <class P>
struct backward_plan {
  std::array<backward_step, 2 * std::size_t(P::size)> steps{};
  int num_steps = 0;
  std::array<home, std::size_t(P::size)> value{};  ///< rebuilt values only
  std::array<home, std::size_t(P::size)> gradient{};
  int num_scratch = 0;
  bool in_place = false;  ///< the input's gradient is found where the output's was

  static constexpr backward_plan make() {
    backward_plan plan{};
    plan.list_steps();
    plan.place();
    return plan;
  }

 private:
  constexpr void list_steps() {
    std::array<bool, std::size_t(P::size)> made{};
    for (int i = P::size - 1; i >= 0; --i) {
      auto const c = P::at(i);
      if (!P::has_gradient(i) || c.code == op::input) continue;
      if (c.code == op::apply || c.row >= 0) {
        std::array<bool, std::size_t(P::size)> wanted{};
        wanted[std::size_t(c.a)] = true;
        for (int v = c.a; v >= 0; --v) {
          if (!wanted[std::size_t(v)] || !P::rebuilt(v)) continue;
          for (int u = 0; u < v; ++u)
            if (P::reads(v, u)) wanted[std::size_t(u)] = true;
        }
        for (int v = 0; v <= c.a; ++v) {
          if (!wanted[std::size_t(v)] || !P::rebuilt(v) || made[std::size_t(v)]) continue;
          made[std::size_t(v)] = true;
          steps[std::size_t(num_steps++)] = {true, v};
        }
      }
      steps[std::size_t(num_steps++)] = {false, i};
    }
  }

  constexpr void place() {
    detail::slot_allocator<2 * P::size> slots;
    std::array<bool, std::size_t(P::size)> written{}, lent{};
    for (int s = P::num_outputs - 1; s >= 0; --s) {
      int const o = P::outs[std::size_t(s)];
      gradient[std::size_t(o)] =
          P::at(o).code == op::input ? home{home::input, P::at(o).stream} : home{home::output, s};
      written[std::size_t(o)] = true;
    }
    for (int k = 0; k < num_steps; ++k) {
      auto& step = steps[std::size_t(k)];
      if (step.rebuild) {
        value[std::size_t(step.value)] = {home::scratch, slots.take()};
      } else {
        auto const c = P::at(step.value);
        bool moved = false;
        bool const passes = c.code == op::add || c.code == op::scale || c.code == op::through;
        auto send = [&](int operand) {
          if (operand < 0) return flow::none;
          if (written[std::size_t(operand)]) return flow::add;
          written[std::size_t(operand)] = true;
          home& h = gradient[std::size_t(operand)];
          home const from = gradient[std::size_t(step.value)];
          bool const is_input = P::at(operand).code == op::input;
          bool const may_stay =
              !is_input || (P::num_inputs == 1 && P::num_outputs == 1 && from.kind == home::output);
          if (passes && may_stay && c.a != c.b && (!moved || reads_first(c.a, c.b, k))) {
            flow const how = moved ? flow::share : flow::move;
            if (moved) lent[std::size_t((std::max)(c.a, c.b))] = true;
            moved = true;
            in_place = in_place || is_input;
            h = from;
            return how;
          }
          if (is_input) {
            h = {home::input, P::at(operand).stream};
            return flow::replace;
          }
          h = {home::scratch, slots.take()};
          return flow::replace;
        };
        step.to_b = send(c.b);
        step.to_a = c.code == op::through ? flow::none : send(c.a);
        home const own = gradient[std::size_t(step.value)];
        if (own.kind == home::scratch && !moved && !lent[std::size_t(step.value)]) slots.give(own.index);
      }
      for (int v = 0; v < P::size; ++v) {
        if (value[std::size_t(v)].kind == home::scratch && last_reader(v) == k)
          slots.give(value[std::size_t(v)].index);
      }
    }
    num_scratch = slots.peak;
  }

  /// Of the operands of the add at step k: whether the later one reads its gradient once, and before anything
  /// is added to that of the other.
  constexpr bool reads_first(int a, int b, int k) const {
    int const later = (std::max)(a, b), other = (std::min)(a, b);
    auto const code = P::at(later).code;
    if (code != op::apply && code != op::norm && code != op::unit) return false;
    bool has_read = false;
    for (int j = k + 1; j < num_steps; ++j) {
      auto const& step = steps[std::size_t(j)];
      if (step.rebuild) continue;
      auto const c = P::at(step.value);
      if (c.a == later || c.b == later) return false;
      if (!has_read && (c.a == other || c.b == other)) return false;
      has_read = has_read || step.value == later;
    }
    return has_read;
  }

  constexpr int last_reader(int v) const {
    int last = -1;
    for (int k = 0; k < num_steps; ++k) {
      auto const& step = steps[std::size_t(k)];
      auto const c = P::at(step.value);
      bool const reads = step.rebuild ? P::reads(step.value, v) || step.value == v
                                      : (c.code == op::apply || c.row >= 0) && c.a == v;
      if (reads) last = k;
    }
    return last;
  }
};

template <class P, purpose For>
inline constexpr auto forward_plan_of = forward_plan<P, For>::make();
template <class P>
inline constexpr auto backward_plan_of = backward_plan<P>::make();

/// Scratch buffers [T, D] a layer of this program needs at once, whatever it is run for.
template <class P>
inline constexpr int num_scratch = (std::max)({forward_plan_of<P, purpose::training>.num_scratch,
                                               forward_plan_of<P, purpose::inference>.num_scratch,
                                               backward_plan_of<P>.num_scratch});

}  // namespace accrete::inline v0::wiring
