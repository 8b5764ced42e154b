// labels: threads
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <tuple>
#include <vector>

#include "accrete/cpu/backend.hpp"
#include "accrete/reference/backend.hpp"
#include "support/agreement.hpp"
#include "support/catch.hpp"

namespace ac = accrete;
using ac::index_t;
using ac::store;
using test::copy_of;
using test::distance;
using test::flat;
using test::matrix;
using test::normal;
using test::same_bits;
using test::tolerance;
using test::widened;

using scalars = std::tuple<float, double>;
constexpr index_t sizes[] = {1, 3, 7, 33, 129};
ac::reference::backend<double> const oracle;

/// Calls body(rows, columns, gap, a context), contexts of one and of two threads in turn.
template <class T, class Body>
void for_shapes(Body const& body) {
  ac::cpu::backend<T> const contexts[] = {ac::cpu::backend<T>(1), ac::cpu::backend<T>(2)};
  std::size_t turn = 0;
  for (index_t const rows : sizes) {
    for (index_t const columns : sizes) {
      for (index_t const gap : {0, 3}) body(rows, columns, gap, contexts[turn++ % 2]);
    }
  }
  // Enough for every thread to get a share, and more than one block of whatever is blocked.
  for (index_t const gap : {0, 3}) body(index_t(700), index_t(130), gap, contexts[1]);
}

TEMPLATE_LIST_TEST_CASE("cpu arithmetic agrees with plain loops", "[cpu][arithmetic][U71]", scalars) {
  using T = TestType;
  for_shapes<T>([](index_t rows, index_t columns, index_t gap, ac::cpu::backend<T> const& ctx) {
    auto const a = normal<T>(rows, columns, 1, gap);
    auto const b = normal<T>(rows, columns, 2, columns % 2 * gap);
    auto const wide_a = widened(a);
    auto const wide_b = widened(b);
    matrix<double> expected(rows, columns);
    matrix<T> out(rows, columns, gap);
    CAPTURE(rows, columns, gap);

    add(oracle, wide_a, wide_b, expected);
    add(ctx, a, b, out);
    REQUIRE(distance(out, expected) < tolerance<T>);
    auto in_place = copy_of(a, gap);
    add(ctx, in_place, b, in_place);
    REQUIRE(same_bits(in_place, out));
    in_place.copy_from(b);
    add(ctx, a, in_place, in_place);
    REQUIRE(same_bits(in_place, out));

    scale(oracle, -1.7, wide_a, expected);
    scale(ctx, -1.7, a, out);
    REQUIRE(distance(out, expected) < tolerance<T>);
    in_place.copy_from(a);
    scale(ctx, -1.7, in_place, in_place);
    REQUIRE(same_bits(in_place, out));

    out.copy_from(b);
    expected.copy_from(wide_b);
    accumulate(oracle, 0.3, wide_a, expected);
    accumulate(ctx, 0.3, a, out);
    REQUIRE(distance(out, expected) < tolerance<T>);

    copy(ctx, a, out);
    REQUIRE(same_bits(out, a));
    zero(ctx, out);
    REQUIRE(same_bits(out, matrix<T>(rows, columns)));
    REQUIRE(out.guards_hold());
  });
}

TEMPLATE_LIST_TEST_CASE("cpu copies move vectors with and without gaps", "[cpu][arithmetic]", scalars) {
  using T = TestType;
  ac::cpu::backend<T> const ctx(2);
  for (index_t const n : {1, 33, 40000}) {
    auto const from = normal<T>(1, n, 1);
    matrix<T> to(1, n);
    upload(ctx, flat(from), flat(to));
    REQUIRE(same_bits(to, from));
    zero(ctx, flat(to));
    REQUIRE(same_bits(to, matrix<T>(1, n)));
    download(ctx, flat(from), flat(to));
    REQUIRE(same_bits(to, from));
    to.fill(T(0));
    copy(ctx, flat(from), flat(to));
    REQUIRE(same_bits(to, from));
  }
  // A column of a matrix.
  auto const from = normal<T>(9, 1, 1, 2);
  matrix<T> to(9, 1, 1);
  ac::view<T const, 1> const source(from.view().data, {9}, from.view().stride);
  ac::view<T, 1> const target(to.view().data, {9}, to.view().stride);
  copy(ctx, source, target);
  REQUIRE(same_bits(to, from));
  zero(ctx, target);
  REQUIRE(same_bits(to, matrix<T>(9, 1)));
  REQUIRE(to.guards_hold());
}

TEMPLATE_LIST_TEST_CASE("cpu norms and their backwards agree with plain loops", "[cpu][norms][U71]", scalars) {
  using T = TestType;
  for_shapes<T>([](index_t rows, index_t columns, index_t gap, ac::cpu::backend<T> const& ctx) {
    for (bool const has_gain : {true, false}) {
      for (store const how : {store::replace, store::add}) {
        index_t const gain_size = has_gain ? columns : 0;
        auto const x = normal<T>(rows, columns, 1, gap);
        auto const b = normal<T>(rows, columns, 2, gap);
        auto const dy = normal<T>(rows, columns, 3, gap);
        auto const gain = normal<T>(1, gain_size, 4);
        auto dgain = normal<T>(1, gain_size, 5);
        auto dx = normal<T>(rows, columns, 6, gap);
        matrix<T> y(rows, columns, gap), sum(rows, columns, gap), rstd(rows, 1);
        auto const wide_x = widened(x);
        auto const wide_b = widened(b);
        auto const wide_dy = widened(dy);
        auto const wide_gain = widened(gain);
        auto wide_dgain = widened(dgain);
        auto wide_dx = widened(dx);
        matrix<double> wide_y(rows, columns), wide_sum(rows, columns), wide_rstd(rows, 1);
        CAPTURE(rows, columns, gap, has_gain);

        rms_norm(ctx, x, flat(gain), 1e-3, y, flat(rstd));
        rms_norm(oracle, wide_x, flat(wide_gain), 1e-3, wide_y, flat(wide_rstd));
        REQUIRE(distance(y, wide_y) < tolerance<T>);
        REQUIRE(distance(rstd, wide_rstd) < tolerance<T>);

        rms_norm_backward(ctx, x, flat(gain), flat(rstd), dy, dx, flat(dgain), how);
        rms_norm_backward(oracle, wide_x, flat(wide_gain), flat(wide_rstd), wide_dy, wide_dx, flat(wide_dgain),
                          how);
        // A row of one element has a gradient of almost nothing: what is left over of two equal numbers.
        REQUIRE(distance(dx, wide_dx) < (columns == 1 ? 1e4 : 1.0) * tolerance<T>);
        REQUIRE(distance(dgain, wide_dgain) < tolerance<T>);

        add_rms_norm(ctx, x, b, sum, flat(gain), 1e-3, y, flat(rstd));
        add_rms_norm(oracle, wide_x, wide_b, wide_sum, flat(wide_gain), 1e-3, wide_y, flat(wide_rstd));
        REQUIRE(distance(sum, wide_sum) < tolerance<T>);
        REQUIRE(distance(y, wide_y) < tolerance<T>);
        REQUIRE(distance(rstd, wide_rstd) < tolerance<T>);
        auto in_place = copy_of(x, gap);
        add_rms_norm(ctx, in_place, b, in_place, flat(gain), 1e-3, y, flat(rstd));
        REQUIRE(same_bits(in_place, sum));
        REQUIRE(distance(y, wide_y) < tolerance<T>);
      }
    }
  });
}

TEMPLATE_LIST_TEST_CASE("cpu norm backward may write over its upstream gradient", "[cpu][norms][U71]",
                        scalars) {
  using T = TestType;
  ac::cpu::backend<T> const ctx(2);
  auto const x = normal<T>(200, 33, 1);
  auto const gain = normal<T>(1, 33, 2);
  auto dy = normal<T>(200, 33, 3);
  matrix<T> y(200, 33), rstd(200, 1), dx(200, 33), dgain(1, 33), dgain_in_place(1, 33), none(1, 0);
  rms_norm(ctx, x, flat(gain), 1e-5, y, flat(rstd));
  rms_norm_backward(ctx, x, flat(gain), flat(rstd), dy, dx, flat(dgain), store::replace);
  auto frozen = copy_of(dy);
  rms_norm_backward(ctx, x, flat(gain), flat(rstd), dy, frozen, flat(none), store::replace);
  REQUIRE(same_bits(frozen, dx));  // a frozen gain has no gradient; the rest is the same
  rms_norm_backward(ctx, x, flat(gain), flat(rstd), dy, dy, flat(dgain_in_place), store::replace);
  REQUIRE(same_bits(dy, dx));
  REQUIRE(same_bits(dgain_in_place, dgain));
}

TEMPLATE_LIST_TEST_CASE("cpu head norms agree with plain loops", "[cpu][norms][U71]", scalars) {
  using T = TestType;
  for_shapes<T>([](index_t rows, index_t head_dim, index_t gap, ac::cpu::backend<T> const& ctx) {
    for (index_t const heads : {1, 3}) {
      for (store const how : {store::replace, store::add}) {
        auto const x = normal<T>(rows, heads * head_dim, 1, gap);
        auto const dy = normal<T>(rows, heads * head_dim, 2, gap);
        auto const gain = normal<T>(1, head_dim, 3);
        auto dgain = normal<T>(1, head_dim, 4);
        auto dx = normal<T>(rows, heads * head_dim, 5, gap);
        matrix<T> y(rows, heads * head_dim, gap), rstd(rows, heads, gap);
        auto const wide_x = widened(x);
        auto const wide_dy = widened(dy);
        auto const wide_gain = widened(gain);
        auto wide_dgain = widened(dgain);
        auto wide_dx = widened(dx);
        matrix<double> wide_y(rows, heads * head_dim), wide_rstd(rows, heads);
        head_rms_norm(ctx, x, flat(gain), 1e-3, y, rstd);
        head_rms_norm(oracle, wide_x, flat(wide_gain), 1e-3, wide_y, wide_rstd);
        head_rms_norm_backward(ctx, x, flat(gain), rstd, dy, dx, flat(dgain), how);
        head_rms_norm_backward(oracle, wide_x, flat(wide_gain), wide_rstd, wide_dy, wide_dx, flat(wide_dgain),
                               how);
        CAPTURE(rows, head_dim, heads, gap);
        REQUIRE(distance(y, wide_y) < tolerance<T>);
        REQUIRE(distance(rstd, wide_rstd) < tolerance<T>);
        REQUIRE(distance(dx, wide_dx) < (head_dim == 1 ? 1e4 : 1.0) * tolerance<T>);
        REQUIRE(distance(dgain, wide_dgain) < tolerance<T>);
        auto in_place = copy_of(x, gap);
        head_rms_norm(ctx, in_place, flat(gain), 1e-3, in_place, rstd);
        REQUIRE(same_bits(in_place, y));
      }
    }
  });
}

TEMPLATE_LIST_TEST_CASE("cpu embedding and rotation agree with plain loops", "[cpu][positions]", scalars) {
  using T = TestType;
  for_shapes<T>([](index_t rows, index_t half, index_t gap, ac::cpu::backend<T> const& ctx) {
    std::vector<std::int32_t> numbers;
    for (index_t t = 0; t < rows; ++t) numbers.push_back(std::int32_t((t * 31 + 4) % 50));
    ac::view<std::int32_t const, 1> const positions(numbers.data(), {rows});
    auto const table = normal<T>(50, half, 1, gap);
    matrix<T> embedded(rows, half, gap);
    embed(ctx, table, positions, embedded);
    for (index_t t = 0; t < rows; ++t) REQUIRE(embedded(t, half - 1) == table(positions(t), half - 1));
    matrix<double> wide_embedded(rows, half);
    embed(oracle, widened(table), positions, wide_embedded);
    REQUIRE(distance(embedded, wide_embedded) == 0);

    matrix<T> cosines(50, half, gap), sines(50, half, gap);
    matrix<double> wide_cosines(50, half), wide_sines(50, half);
    auto const frequencies = test::plain_frequencies(2 * half, 1e4);
    rotary_table(ctx, frequencies, cosines, sines);
    rotary_table(oracle, frequencies, wide_cosines, wide_sines);
    REQUIRE(distance(cosines, wide_cosines) < tolerance<T>);
    REQUIRE(distance(sines, wide_sines) < tolerance<T>);

    for (index_t const heads : {1, 3}) {
      auto const before = normal<T>(rows, heads * 2 * half, 2, gap);
      auto x = copy_of(before, gap);
      auto wide_x = widened(before);
      rotary(ctx, x, positions, cosines, sines, ac::rotation::forward);
      rotary(oracle, wide_x, positions, wide_cosines, wide_sines, ac::rotation::forward);
      REQUIRE(distance(x, wide_x) < tolerance<T>);
      rotary(ctx, x, positions, cosines, sines, ac::rotation::inverse);
      REQUIRE(distance(x, widened(before)) < tolerance<T>);
    }
  });
}

TEMPLATE_LIST_TEST_CASE("cpu biases and their backward agree with plain loops", "[cpu][linear]", scalars) {
  using T = TestType;
  for_shapes<T>([](index_t rows, index_t columns, index_t gap, ac::cpu::backend<T> const& ctx) {
    auto const bias = normal<T>(1, columns, 1);
    auto const before = normal<T>(rows, columns, 2, gap);
    auto y = copy_of(before, gap);
    auto wide_y = widened(before);
    add_bias(ctx, flat(bias), y);
    add_bias(oracle, flat(widened(bias)), wide_y);
    CAPTURE(rows, columns, gap);
    REQUIRE(distance(y, wide_y) < tolerance<T>);
    auto dbias = normal<T>(1, columns, 3);  // added to
    auto wide_dbias = widened(dbias);
    add_bias_backward(ctx, before, flat(dbias));
    add_bias_backward(oracle, widened(before), flat(wide_dbias));
    REQUIRE(distance(dbias, wide_dbias) < tolerance<T>);
  });
}

TEMPLATE_LIST_TEST_CASE("cpu swiglu and its backward agree with plain loops", "[cpu][swiglu]", scalars) {
  using T = TestType;
  for_shapes<T>([](index_t rows, index_t width, index_t gap, ac::cpu::backend<T> const& ctx) {
    auto const gate_up = normal<T>(rows, 2 * width, 1, gap, 4.0);
    auto const dout = normal<T>(rows, width, 2, gap);
    matrix<T> out(rows, width, gap), dgate_up(rows, 2 * width, gap);
    matrix<double> wide_out(rows, width), wide_dgate_up(rows, 2 * width);
    swiglu(ctx, gate_up, out);
    swiglu(oracle, widened(gate_up), wide_out);
    swiglu_backward(ctx, gate_up, dout, dgate_up);
    swiglu_backward(oracle, widened(gate_up), widened(dout), wide_dgate_up);
    CAPTURE(rows, width, gap);
    REQUIRE(distance(out, wide_out) < tolerance<T>);
    REQUIRE(distance(dgate_up, wide_dgate_up) < tolerance<T>);
  });
}

TEMPLATE_LIST_TEST_CASE("cpu swiglu of gates far from zero is finite, and of no number none", "[cpu][swiglu]",
                        scalars) {
  using T = TestType;
  ac::cpu::backend<T> const ctx(1);
  matrix<T> const gate_up(1, 16, {-1000, -100, -88, -30, 30, 88, 100, 1000, 1, 1, 1, 1, 1, 1, 1, 1});
  matrix<T> const dout(1, 8, {1, 1, 1, 1, 1, 1, 1, 1});
  matrix<T> out(1, 8), dgate_up(1, 16);
  matrix<double> wide_out(1, 8), wide_dgate_up(1, 16);
  swiglu(ctx, gate_up, out);
  swiglu(oracle, widened(gate_up), wide_out);
  swiglu_backward(ctx, gate_up, dout, dgate_up);
  swiglu_backward(oracle, widened(gate_up), widened(dout), wide_dgate_up);
  REQUIRE(distance(out, wide_out) < tolerance<T>);
  REQUIRE(distance(dgate_up, wide_dgate_up) < tolerance<T>);
  for (index_t const place : {0, 7}) {
    auto bad = copy_of(gate_up);
    bad(0, place) = std::numeric_limits<T>::quiet_NaN();
    swiglu(ctx, bad, out);
    swiglu_backward(ctx, bad, dout, dgate_up);
    REQUIRE(std::isnan(out(0, place)));
    REQUIRE(std::isnan(dgate_up(0, place)));
    REQUIRE(std::isnan(dgate_up(0, 8 + place)));
  }
}

TEMPLATE_LIST_TEST_CASE("cpu optimizer agrees with plain loops", "[cpu][optimizer]", scalars) {
  using T = TestType;
  for (index_t const n : {1, 3, 7, 33, 129, 5000, 40001}) {
    ac::cpu::backend<T> const ctx(2);
    auto p = normal<T>(1, n, 1);
    matrix<T> m(1, n), v(1, n);
    auto wide_p = widened(p);
    auto wide_m = widened(m);
    auto wide_v = widened(v);
    auto const start = copy_of(wide_p);
    for (std::int64_t step = 1; step <= 3; ++step) {
      ac::adamw_step const s{1e-2, 0.9, 0.95, 1e-3, 0.1, step, 0.5};
      auto const g = normal<T>(1, n, int(10 + step));
      adamw(ctx, flat(p), flat(g), flat(m), flat(v), s);
      auto const wide_g = widened(g);
      adamw(oracle, flat(wide_p), flat(wide_g), flat(wide_m), flat(wide_v), s);
      double const sum = sum_of_squares(ctx, flat(g));
      REQUIRE(std::abs(sum - sum_of_squares(oracle, flat(wide_g))) <= 1e-12 * sum);
    }
    CAPTURE(n);
    REQUIRE(distance(m, wide_m) < tolerance<T>);
    REQUIRE(distance(v, wide_v) < tolerance<T>);
    // The way it went, not the place: the place hides a wrong way.
    matrix<double> way(1, n), wide_way(1, n);
    for (index_t i = 0; i < n; ++i) {
      way(0, i) = double(p(0, i)) - start(0, i);
      wide_way(0, i) = wide_p(0, i) - start(0, i);
    }
    REQUIRE(distance(way, wide_way) < (std::is_same_v<T, float> ? 1e-5 : 1e-12));
  }
}

TEST_CASE("cpu sum of squares is not finite if any element is not, and holds what float cannot",
          "[cpu][optimizer]") {
  ac::cpu::backend<float> const ctx(2);
  for (float const bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    for (index_t const place : {0, 9000, 20000}) {
      auto g = normal<float>(1, 20001, 1);
      g(0, place) = bad;
      REQUIRE(!std::isfinite(sum_of_squares(ctx, flat(g))));
    }
  }
  matrix<float> g(1, 3, {1e30, 1e30, -1e30});
  REQUIRE(std::abs(sum_of_squares(ctx, flat(g)) / 3e60 - 1) < 1e-6);
  REQUIRE(sum_of_squares(ctx, {}) == 0);
}

TEST_CASE("cpu operations give the same bits on every run and for every number of threads", "[cpu][threads]") {
  index_t const rows = 700;
  index_t const columns = 96;
  auto const x = normal<float>(rows, columns, 1);
  auto const dy = normal<float>(rows, columns, 2);
  auto const gain = normal<float>(1, columns, 3);
  auto const gate_up = normal<float>(rows, 2 * columns, 4);
  auto const run = [&](int threads) {
    ac::cpu::backend<float> const ctx(threads);
    std::vector<matrix<float>> r;
    for (int i = 0; i < 9; ++i) r.emplace_back(rows, columns);
    matrix<float> rstd(rows, 1), dgain(1, columns), dbias(1, columns), dgate_up(rows, 2 * columns), sum(1, 2);
    r[5].copy_from(x);
    add_bias(ctx, flat(gain), r[5]);
    add_bias_backward(ctx, dy, flat(dbias));
    add(ctx, x, dy, r[0]);
    accumulate(ctx, 0.1, x, r[1]);
    rms_norm(ctx, x, flat(gain), 1e-5, r[2], flat(rstd));
    rms_norm_backward(ctx, x, flat(gain), flat(rstd), dy, r[3], flat(dgain), store::replace);
    swiglu(ctx, gate_up, r[4]);
    swiglu_backward(ctx, gate_up, dy, dgate_up);
    r[6].copy_from(x);
    adamw(ctx, flat(r[6]), flat(dy), flat(r[7]), flat(r[8]), {1e-3, 0.9, 0.95, 1e-8, 0.1, 1, 1.0});
    double const squares = sum_of_squares(ctx, flat(x));
    sum(0, 0) = float(squares);
    sum(0, 1) = float(squares - double(sum(0, 0)));
    r.push_back(std::move(rstd));
    r.push_back(std::move(dgain));
    r.push_back(std::move(dbias));
    r.push_back(std::move(dgate_up));
    r.push_back(std::move(sum));
    return r;
  };
  auto const first = run(2);
  for (int const threads : {2, 1, 3}) {
    auto const again = run(threads);
    for (std::size_t i = 0; i < first.size(); ++i) {
      CAPTURE(i, threads);
      REQUIRE(same_bits(first[i], again[i]));
    }
  }
}

TEST_CASE("cpu operations refuse views that do not fit", "[cpu][backend]") {
  ac::cpu::backend<float> const ctx(1);
  matrix<float> a(3, 4), b(4, 3), g(1, 3), r(3, 1), heads(3, 3);
  REQUIRE_THROWS_AS(add(ctx, a, b, a), ac::shape_error);
  REQUIRE_THROWS_AS(add(ctx, a, a, b), ac::shape_error);
  REQUIRE_THROWS_AS(scale(ctx, 1.0, a, b), ac::shape_error);
  REQUIRE_THROWS_AS(accumulate(ctx, 1.0, a, b), ac::shape_error);
  REQUIRE_THROWS_AS(copy(ctx, a, b), ac::shape_error);
  REQUIRE_THROWS_AS(copy(ctx, flat(g), flat(a)), ac::shape_error);
  REQUIRE_THROWS_AS(rms_norm(ctx, a, flat(g), 1e-5, a, flat(r)), ac::shape_error);
  REQUIRE_THROWS_AS(head_rms_norm(ctx, a, {}, 1e-5, a, heads), ac::shape_error);
  REQUIRE_THROWS_AS(add_bias(ctx, flat(g), a), ac::shape_error);
  REQUIRE_THROWS_AS(add_bias_backward(ctx, a, flat(g)), ac::shape_error);
  REQUIRE_THROWS_AS(rotary_table(ctx, test::plain_frequencies(6, 1e4), a, a), ac::shape_error);
  REQUIRE_THROWS_AS(swiglu(ctx, a, b), ac::shape_error);
  REQUIRE_THROWS_AS(adamw(ctx, flat(a), flat(g), flat(a), flat(a), {}), ac::shape_error);
  std::vector<std::int32_t> const bad{0, 7, 9};
  REQUIRE_THROWS_WITH(embed(ctx, a, {bad.data(), {3}}, a),
                      Catch::Matchers::ContainsSubstring("id 7 at position 1"));
  REQUIRE_THROWS_WITH(rotary(ctx, a, {bad.data(), {3}}, a.view().column_slice(0, 2),
                             a.view().column_slice(2, 2), ac::rotation::forward),
                      Catch::Matchers::ContainsSubstring("id 7 at position 1"));
}
