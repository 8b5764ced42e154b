#pragma once
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

#include "accrete/backend/types.hpp"
#include "accrete/core/error.hpp"
#include "accrete/core/view.hpp"

/// The questions every backend asks before it touches memory. The messages are built only when they are thrown.
namespace accrete::inline v0::check {

namespace detail {

template <std::size_t N>
std::string shape_text(std::array<index_t, N> const& extents) {
  std::string text = "[";
  for (std::size_t d = 0; d < N; ++d) text += (d == 0 ? "" : ", ") + std::to_string(extents[d]);
  return text + "]";
}

template <std::size_t N>
[[noreturn]] void throw_shape(char const* operation, char const* argument, std::array<index_t, N> const& got,
                              std::array<index_t, N> const& expected) {
  throw shape_error(operation, std::string(argument) + " " + shape_text(got), shape_text(expected));
}

}  // namespace detail

/// Throws shape_error unless `v` has exactly the extents `expected`.
/// check::shape("linear", "w", w, {out, in})
template <class T, int Rank, class Space>
void shape(char const* operation, char const* argument, view<T, Rank, Space> const& v,
           std::array<index_t, std::size_t(Rank)> const& expected) {
  bool fits = true;  // a loop, as the optimizer sees through it where it does not through array's operator==
  for (std::size_t d = 0; d < expected.size(); ++d) fits = fits && v.extents[d] == expected[d];
  if (!fits) detail::throw_shape(operation, argument, v.extents, expected);
}

/// Throws shape_error unless `holds`: for relations that are not the equality of two shapes.
inline void that(bool holds, char const* operation, char const* got, char const* expected) {
  if (!holds) throw shape_error(operation, got, expected);
}

/// Throws shape_error unless the offsets [documents + 1] rise from 0 to `tokens` (documents of no token
/// allowed).
inline void documents(char const* operation, view<index_t const, 1> const& offsets, index_t tokens) {
  if (offsets.rows() < 1) {
    throw shape_error(operation, "no document offsets", "at least one, and the first to be 0");
  }
  if (offsets(0) != 0 || offsets(offsets.rows() - 1) != tokens) {
    throw shape_error(
        operation,
        "documents from " + std::to_string(offsets(0)) + " to " + std::to_string(offsets(offsets.rows() - 1)),
        "from 0 to the " + std::to_string(tokens) + " tokens");
  }
  for (index_t d = 1; d < offsets.rows(); ++d) {
    if (offsets(d) < offsets(d - 1)) {
      throw shape_error(operation,
                        "document " + std::to_string(d - 1) + " from " + std::to_string(offsets(d - 1)) +
                            " to " + std::to_string(offsets(d)),
                        "offsets that never fall");
    }
  }
}

/// Throws shape_error naming position and value unless every id is in [0, limit). `what` names a member of the
/// limited set: "rows of the table".
inline void ids_below(char const* operation, view<std::int32_t const, 1> const& ids, index_t limit,
                      char const* what) {
  for (index_t t = 0; t < ids.rows(); ++t) {
    if (ids(t) < 0 || ids(t) >= limit) {
      throw shape_error(operation, "id " + std::to_string(ids(t)) + " at position " + std::to_string(t),
                        "at least 0 and less than the " + std::to_string(limit) + " " + what);
    }
  }
}

/// As ids_below, but `ignore_target` (and no other negative number) passes.
inline void targets_below(char const* operation, view<std::int32_t const, 1> const& targets,
                          index_t vocabulary) {
  for (index_t t = 0; t < targets.rows(); ++t) {
    if (targets(t) == ignore_target) continue;
    if (targets(t) < 0 || targets(t) >= vocabulary) {
      throw shape_error(operation, "target " + std::to_string(targets(t)) + " at position " + std::to_string(t),
                        "at least 0 and less than the vocabulary of " + std::to_string(vocabulary) + ", or " +
                            std::to_string(ignore_target) + " to ignore it");
    }
  }
}

/// Throws shape_error unless the heads divide evenly among the key/value heads, and config_error for a scale
/// that is not above 0: a row's largest score is looked for before it is scaled.
inline void heads(char const* operation, attention_shape const& s) {
  if (s.heads < 1 || s.kv_heads < 1 || s.head_dim < 1 || s.heads % s.kv_heads != 0) {
    throw shape_error(operation,
                      std::to_string(s.heads) + " heads over " + std::to_string(s.kv_heads) +
                          " key/value heads of size " + std::to_string(s.head_dim),
                      "positive numbers, the first a multiple of the second");
  }
  if (!(s.scale > 0) || !std::isfinite(s.scale))
    throw config_error(operation, "scores times " + std::to_string(s.scale),
                       "a finite scale above 0, usually head_dim^-0.5");
}

/// Throws config_error unless the temperature is a number above 0.
inline void temperature(char const* operation, double tau) {
  if (!(tau > 0)) {
    throw config_error(operation, "a temperature of " + std::to_string(tau), "a number above 0");
  }
}

/// Throws config_error unless updates are counted from 1: bias correction divides by 1 - beta^step.
inline void step(char const* operation, adamw_step const& s) {
  if (s.step < 1) {
    throw config_error(operation, "step " + std::to_string(s.step), "1 for the first update of a state");
  }
}

}  // namespace accrete::inline v0::check
