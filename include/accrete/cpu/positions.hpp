#pragma once
#include <algorithm>
#include <cmath>

#include "accrete/backend/arguments.hpp"
#include "accrete/backend/check.hpp"
#include "accrete/backend/types.hpp"
#include "accrete/cpu/context.hpp"
#include "accrete/cpu/parallel.hpp"
#include "accrete/cpu/staging.hpp"

namespace accrete::inline v0::cpu {

/// table [V, D], ids [T] -> out [T, D], in the format of residual streams. Throws shape_error, for an id past
/// the table too.
template <class T, class Gemm>
void embed(backend<T, Gemm> const& ctx, args::in2<T> table, args::ids<> ids, args::out2<computed_as<T>> out) {
  check::shape("embed", "out", out, {ids.rows(), table.columns()});
  check::ids_below("embed", ids, table.rows(), "rows of the table");
  auto const timing = ctx.timed("embed", (1.0 + widths<T>) * double(out.size()));
  for_ranges(ctx.threads(), out.rows(), out.columns(), [&](range r) {
    for (index_t t = r.first; t < r.last; ++t) detail::convert(table.row(ids(t)), out.columns(), out.row(t));
  });
}

/// cosines, sines [positions, head_dim / 2] of position * frequencies[i], the angle in double whatever T is.
/// Throws shape_error.
template <class T, class Gemm>
void rotary_table(backend<T, Gemm> const& ctx, args::frequencies frequencies, args::out2<computed_as<T>> cosines,
                  args::out2<computed_as<T>> sines) {
  index_t const half = cosines.columns();
  check::shape("rotary_table", "frequencies", frequencies, {half});
  check::shape("rotary_table", "sines", sines, cosines.extents);
  constexpr index_t angle_cost = 64;  // elements of streaming that a cosine and a sine are worth
  for_ranges(ctx.threads(), cosines.rows(), half * angle_cost, [&](range r) {
    for (index_t i = 0; i < half; ++i) {
      for (index_t position = r.first; position < r.last; ++position) {
        double const angle = double(position) * frequencies(i);
        cosines(position, i) = computed_as<T>(std::cos(angle));
        sines(position, i) = computed_as<T>(std::sin(angle));
      }
    }
  });
}

/// Rotates the pairs (i, i + head_dim / 2) of every head of x [T, H * head_dim] in place by the angles of its
/// row's position; head_dim is twice the tables' width. The inverse is the backward too. Throws shape_error,
/// for a position past the tables too.
template <class T, class Gemm>
void rotary(backend<T, Gemm> const& ctx, args::out2<T> x, args::ids<> positions,
            args::in2<computed_as<T>> cosines, args::in2<computed_as<T>> sines, rotation way) {
  using C = computed_as<T>;
  index_t const half = cosines.columns();
  check::shape("rotary", "sines", sines, cosines.extents);
  check::shape("rotary", "positions", positions, {x.rows()});
  check::that(half > 0 && x.columns() % (2 * half) == 0, "rotary", "a width that is not a number of heads",
              "x [T, heads * head_dim] and tables of head_dim / 2 columns");
  check::ids_below("rotary", positions, cosines.rows(), "positions of the table");
  auto const timing = ctx.timed("rotary", 2.0 * double(x.size()));
  C const sign = way == rotation::forward ? C(1) : C(-1);
  for_ranges(ctx.threads(), x.rows(), x.columns(), [&](range r) {
    for (index_t t = r.first; t < r.last; ++t) {
      C const* const c = cosines.row(positions(t));
      C const* const s = sines.row(positions(t));
      for (index_t first = 0; first < x.columns(); first += 2 * half) {
        T* const low = x.row(t) + first;
        T* const high = low + half;
#pragma omp simd
        for (index_t i = 0; i < half; ++i) {
          C const a = C(low[i]);
          C const b = C(high[i]);
          C const sine = sign * s[i];
          detail::put(low[i], a * c[i] - b * sine);
          detail::put(high[i], b * c[i] + a * sine);
        }
      }
    }
  });
}

}  // namespace accrete::inline v0::cpu
