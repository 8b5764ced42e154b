#pragma once
#include <cmath>
#include <concepts>

#include "accrete/backend/arguments.hpp"
#include "accrete/backend/check.hpp"
#include "accrete/backend/types.hpp"
#include "accrete/reference/context.hpp"

namespace accrete::inline v0::reference {

/// table [V, D], ids [T] -> out [T, D]. Throws shape_error for an id past the table.
template <std::floating_point T>
void embed(backend<T> const&, args::in2<T> table, args::ids<> ids, args::out2<T> out) {
  check::shape("embed", "out", out, {ids.rows(), table.columns()});
  check::ids_below("embed", ids, table.rows(), "rows of the table");
  for (index_t t = 0; t < ids.rows(); ++t) {
    for (index_t i = 0; i < table.columns(); ++i) out(t, i) = table(ids(t), i);
  }
}

/// cosines, sines [positions, head_dim / 2] of position * frequencies[i]. The angles are computed in double: at
/// position 16,000 a 16-bit phase would be off by whole radians.
template <std::floating_point T>
void rotary_table(backend<T> const&, args::frequencies frequencies, args::out2<T> cosines,
                  args::out2<T> sines) {
  index_t const half = cosines.columns();
  check::shape("rotary_table", "frequencies", frequencies, {half});
  check::shape("rotary_table", "sines", sines, cosines.extents);
  for (index_t position = 0; position < cosines.rows(); ++position) {
    for (index_t i = 0; i < half; ++i) {
      double const angle = double(position) * frequencies(i);
      cosines(position, i) = static_cast<T>(std::cos(angle));
      sines(position, i) = static_cast<T>(std::sin(angle));
    }
  }
}

/// Rotates the pairs (i, i + head_dim / 2) of every head of x [T, H * head_dim] in place; head_dim is twice the
/// table's width. The inverse is also the backward: a rotation's transpose is its inverse.
template <std::floating_point T>
void rotary(backend<T> const&, args::out2<T> x, args::ids<> positions, args::in2<T> cosines, args::in2<T> sines,
            rotation way) {
  index_t const half = cosines.columns();
  check::shape("rotary", "sines", sines, cosines.extents);
  check::shape("rotary", "positions", positions, {x.rows()});
  check::that(half > 0 && x.columns() % (2 * half) == 0, "rotary", "a width that is not a number of heads",
              "x [T, heads * head_dim] and tables of head_dim / 2 columns");
  check::ids_below("rotary", positions, cosines.rows(), "positions of the table");
  for (index_t t = 0; t < x.rows(); ++t) {
    for (index_t first = 0; first < x.columns(); first += 2 * half) {
      for (index_t i = 0; i < half; ++i) {
        double const c = double(cosines(positions(t), i));
        double const s = double(sines(positions(t), i)) * (way == rotation::forward ? 1.0 : -1.0);
        double const a = double(x(t, first + i));
        double const b = double(x(t, first + half + i));
        x(t, first + i) = static_cast<T>(a * c - b * s);
        x(t, first + half + i) = static_cast<T>(b * c + a * s);
      }
    }
  }
}

}  // namespace accrete::inline v0::reference
