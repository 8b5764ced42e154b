#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "accrete/cpu/backend.hpp"
#include "accrete/cpu/stream.hpp"
#include "accrete/cpu/transpose.hpp"
#include "accrete/reference/backend.hpp"
#include "support/agreement.hpp"
#include "support/catch.hpp"
#include "support/providers.hpp"

namespace ac = accrete;
using ac::bfloat16;
using ac::half;
using ac::index_t;
using ac::store;
using test::distance;
using test::matrix;
using test::normal;
using test::providers;
using test::widened;

namespace {

ac::reference::backend<double> const oracle;
/// Half a unit in the last of eight bits, and a little for what is computed before.
constexpr double rounding = 1.05 / 512;

}  // namespace

TEST_CASE("bfloat16 rounds to the nearest, ties to even, and keeps what is no number", "[core][bfloat16]") {
  CHECK(float(bfloat16(1.0F + 1.0F / 256)) == 1.0F);               // a tie, down to even
  CHECK(float(bfloat16(1.0F + 3.0F / 256)) == 1.0F + 4.0F / 256);  // a tie, up to even
  CHECK(float(bfloat16(1.0F + 1.1F / 256)) == 1.0F + 2.0F / 256);
  CHECK(float(bfloat16(-425.5)) == -426.0F);  // spacing 2 at this size
  CHECK(std::isnan(float(bfloat16(std::numeric_limits<float>::quiet_NaN()))));
  CHECK(std::isnan(float(bfloat16(std::numeric_limits<double>::signaling_NaN()))));
  CHECK(float(bfloat16(std::numeric_limits<float>::infinity())) == std::numeric_limits<float>::infinity());
  CHECK(float(bfloat16(1e-40F)) > 0);  // a subnormal stays one
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    auto const b = bfloat16::from_bits(std::uint16_t(bits));
    if (!std::isnan(float(b))) REQUIRE(bfloat16(float(b)).bits == b.bits);
  }
}

TEMPLATE_LIST_TEST_CASE("products of bfloat16 are those of the rounded numbers, summed in float",
                        "[cpu][bfloat16][linear]", providers) {
  for (int const threads : {1, 2}) {
    ac::cpu::backend<bfloat16, TestType> const ctx(threads);
    for (auto const& [tokens, in, out] : std::vector<std::array<index_t, 3>>{
             {1, 1, 1}, {3, 7, 5}, {1, 40, 24}, {24, 1, 40}, {33, 129, 65}, {261, 801, 133}, {37, 130, 1189}}) {
      auto const gap = (tokens + in + out) % 3;
      auto const x = normal<bfloat16>(tokens, in, 1, gap);
      auto const w = normal<bfloat16>(out, in, 2, 2 * gap);
      auto const dy = normal<bfloat16>(tokens, out, 3, gap);
      CAPTURE(threads, tokens, in, out, gap);
      for (store const how : {store::replace, store::add}) {
        auto y = normal<float>(tokens, out, 4, gap);
        auto wide_y = widened(y);
        linear(ctx, x, w, y.view(), how);
        linear(oracle, widened(x), widened(w), wide_y, how);
        CHECK(distance(y, wide_y) < 1e-6);
        auto dx = normal<float>(tokens, in, 5, gap);
        auto wide_dx = widened(dx);
        linear_backward_input(ctx, dy, w, dx.view(), how);
        linear_backward_input(oracle, widened(dy), widened(w), wide_dx, how);
        CHECK(distance(dx, wide_dx) < 1e-6);
        auto dw = normal<float>(out, in, 6, gap);
        auto wide_dw = widened(dw);
        linear_backward_weight(ctx, dy, x, dw, how);
        linear_backward_weight(oracle, widened(dy), widened(x), wide_dw, how);
        CHECK(distance(dw, wide_dw) < 1e-6);
        auto narrow = normal<bfloat16>(tokens, out, 7, gap);
        auto wide_narrow = widened(narrow);
        linear(ctx, x, w, narrow.view(), how);
        linear(oracle, widened(x), widened(w), wide_narrow, how);
        CHECK(distance(narrow, wide_narrow) < rounding);
      }
    }
  }
}

TEMPLATE_LIST_TEST_CASE("long sums and large results of bfloat16 are cut into parts that leave nothing out",
                        "[cpu][bfloat16][linear]", providers) {
  // Sums past one part's length, and results whose rows or columns make many tasks of unequal size.
  for (auto const& [tokens, in, out] : std::vector<std::array<index_t, 3>>{
           {67, 5001, 40}, {40, 70, 4200}, {2100, 50, 33}, {5000, 41, 300}, {60, 16, 36000}}) {
    auto const x = normal<bfloat16>(tokens, in, 1, 16);
    auto const w = normal<bfloat16>(out, in, 2);
    auto const dy = normal<bfloat16>(tokens, out, 3, 1);
    auto const y = normal<float>(tokens, out, 4, 2), dx = normal<float>(tokens, in, 5),
               dw = normal<float>(out, in, 6);
    CAPTURE(tokens, in, out);
    for (store const how : {store::replace, store::add}) {
      auto wide_y = widened(y), wide_dx = widened(dx), wide_dw = widened(dw);
      linear(oracle, widened(x), widened(w), wide_y, how);
      linear_backward_input(oracle, widened(dy), widened(w), wide_dx, how);
      linear_backward_weight(oracle, widened(dy), widened(x), wide_dw, how);
      for (int const threads : {1, 2, 3, 6}) {
        ac::cpu::backend<bfloat16, TestType> const ctx(threads);
        auto y1 = copy_of(y), dx1 = copy_of(dx), dw1 = copy_of(dw);
        linear(ctx, x, w, y1.view(), how);
        linear_backward_input(ctx, dy, w, dx1.view(), how);
        linear_backward_weight(ctx, dy, x, dw1, how);
        CHECK(distance(y1, wide_y) < 2e-6);
        CHECK(distance(dx1, wide_dx) < 2e-6);
        CHECK(distance(dw1, wide_dw) < 2e-6);
        auto again_y = copy_of(y), again_dx = copy_of(dx), again = copy_of(dw);
        linear(ctx, x, w, again_y.view(), how);
        linear_backward_input(ctx, dy, w, again_dx.view(), how);
        linear_backward_weight(ctx, dy, x, again, how);
        CHECK(same_bits(again_y, y1));
        CHECK(same_bits(again_dx, dx1));
        CHECK(same_bits(again, dw1));
      }
    }
  }
}

#if defined(ACCRETE_WITH_ONEDNN)
TEST_CASE("blocks of a result cover it once, with work for all threads", "[cpu][bfloat16][linear]") {
  for (index_t const m : {2, 31, 33, 300, 2048, 2049})
    for (index_t const n : {2, 65, 768, 2049, 151936})
      for (int const threads : {1, 2, 6, 64}) {
        ac::cpu::detail::onednn::block_cut const cut(m, n, threads);
        CAPTURE(m, n, threads, cut.by_rows, cut.by_columns);
        index_t covered = 0;
        for (index_t b = 0; b < cut.count(); ++b) {
          auto const rows = cut.row_range(b), columns = cut.column_range(b);
          covered += rows.size() * columns.size();
          CHECK(rows.size() * columns.size() <= (index_t(1) << 19) * 5 / 4);
          if (b > 0 && b % cut.by_rows != 0) CHECK(rows.first == cut.row_range(b - 1).last);
        }
        CHECK(covered == m * n);
        if (threads > 1) CHECK(cut.count() >= 2 * threads);
      }
}
#endif

TEST_CASE("copies that turn a matrix or pass by the caches move every number and no other", "[cpu][bfloat16]") {
  for (auto const& [rows, columns] :
       std::vector<std::array<index_t, 2>>{{1, 1}, {7, 9}, {8, 8}, {19, 64}, {64, 21}}) {
    auto const x = normal<bfloat16>(rows, columns, 1, 3);
    std::vector<bfloat16> turned(std::size_t(columns * (rows + 2)), bfloat16(9.0F));
    ac::cpu::detail::transpose(x.view(), turned.data(), rows + 2);
    CAPTURE(rows, columns);
    bool right = true;
    for (index_t j = 0; j < columns; ++j)
      for (index_t i = 0; i < rows + 2; ++i) {
        auto const expected = i < rows ? x.view().row(i)[j] : bfloat16(9.0F);
        right = right && turned[std::size_t(j * (rows + 2) + i)].bits == expected.bits;
      }
    CHECK(right);
  }
  auto const from = normal<float>(1, 64, 2);
  for (index_t const first : {0, 1, 4})
    for (index_t const n : {0, 1, 4, 7, 16, 35}) {
      alignas(16) std::array<float, 64> to;
      to.fill(9.0F);
      ac::cpu::detail::stream_copy(from.view().row(0) + 2, n, to.data() + first);
      CAPTURE(first, n);
      bool right = true;
      for (index_t i = 0; i < 64; ++i)
        right = right &&
                to[std::size_t(i)] == (i >= first && i < first + n ? from.view().row(0)[2 + i - first] : 9.0F);
      CHECK(right);
    }
}

TEMPLATE_LIST_TEST_CASE("products of bfloat16 that need no copies write straight to where results belong",
                        "[cpu][bfloat16][linear]", providers) {
  // Rows without gaps and sizes that any block may have; sums of one part, and of several.
  for (auto const& [tokens, in, out] :
       std::vector<std::array<index_t, 3>>{{64, 128, 128}, {64, 2112, 128}, {64, 128, 1088}, {512, 64, 2112}}) {
    auto const x = normal<bfloat16>(tokens, in, 1), w = normal<bfloat16>(out, in, 2),
               dy = normal<bfloat16>(tokens, out, 3);
    auto const y = normal<float>(tokens, out, 4), dx = normal<float>(tokens, in, 5);
    auto const narrow = normal<bfloat16>(tokens, out, 7);
    for (int const threads : {1, 2})
      for (store const how : {store::replace, store::add}) {
        CAPTURE(tokens, in, out, threads, how == store::add);
        ac::cpu::backend<bfloat16, TestType> const ctx(threads);
        auto wide_y = widened(y), wide_dx = widened(dx), wide_narrow = widened(narrow);
        linear(oracle, widened(x), widened(w), wide_y, how);
        linear(oracle, widened(x), widened(w), wide_narrow, how);
        linear_backward_input(oracle, widened(dy), widened(w), wide_dx, how);
        auto y1 = copy_of(y), dx1 = copy_of(dx);
        auto narrow1 = copy_of(narrow);
        linear(ctx, x, w, y1.view(), how);
        linear(ctx, x, w, narrow1.view(), how);
        linear_backward_input(ctx, dy, w, dx1.view(), how);
        CHECK(distance(y1, wide_y) < 2e-6);
        CHECK(distance(narrow1, wide_narrow) < rounding);
        CHECK(distance(dx1, wide_dx) < 2e-6);
      }
  }
}

TEMPLATE_LIST_TEST_CASE("a product of bfloat16 sees nothing of the one before it", "[cpu][bfloat16][linear]",
                        providers) {
  ac::cpu::backend<bfloat16, TestType> const ctx(1);
  matrix<bfloat16> nothing(64, 64, 1);
  for (index_t i = 0; i < 64; ++i)
    for (index_t j = 0; j < 64; ++j) nothing.view()(i, j) = bfloat16(std::numeric_limits<float>::quiet_NaN());
  auto const x = normal<bfloat16>(17, 33, 1, 1), w = normal<bfloat16>(19, 33, 2, 1),
             dy = normal<bfloat16>(17, 19, 3, 1);
  matrix<float> junk(64, 64, 1), y(17, 19), dx(17, 33);
  matrix<double> wide_y(17, 19), wide_dx(17, 33);
  linear(oracle, widened(x), widened(w), wide_y, store::replace);
  linear_backward_input(oracle, widened(dy), widened(w), wide_dx, store::replace);
  linear(ctx, nothing, nothing, junk.view(), store::replace);
  linear(ctx, x, w, y.view(), store::replace);
  linear_backward_input(ctx, nothing, nothing, junk.view(), store::replace);
  linear_backward_input(ctx, dy, w, dx.view(), store::replace);
  CHECK(distance(y, wide_y) < 1e-6);
  CHECK(distance(dx, wide_dx) < 1e-6);
}

TEMPLATE_LIST_TEST_CASE("a product of bfloat16 with nothing to sum over is zero, or adds nothing",
                        "[cpu][bfloat16][linear]", providers) {
  ac::cpu::backend<bfloat16, TestType> const ctx(2);
  matrix<bfloat16> const x(3, 0), w(2, 0);
  auto y = normal<float>(3, 2, 1);
  auto const before = copy_of(y);
  linear(ctx, x, w, y.view(), store::add);
  REQUIRE(same_bits(y, before));
  linear(ctx, x, w, y.view(), store::replace);
  REQUIRE(same_bits(y, matrix<float>(3, 2)));
}

TEST_CASE("norms, rotation, embedding and biases in bfloat16 are those of the rounded numbers",
          "[cpu][bfloat16]") {
  ac::cpu::backend<bfloat16> const ctx(2);
  index_t const tokens = 37, width = 48, heads = 6, head_dim = 8;
  auto const x = normal<float>(tokens, width, 1);
  auto const b = normal<float>(tokens, width, 2);
  auto const gain = normal<float>(1, width, 3);
  auto const wide_gain = widened(gain);
  matrix<float> y(tokens, width), sum(tokens, width), rstd(tokens, 1);
  matrix<bfloat16> narrow(tokens, width);
  matrix<double> wide_y(tokens, width), wide_sum(tokens, width), wide_rstd(tokens, 1);
  add_rms_norm(oracle, widened(x), widened(b), wide_sum, flat(wide_gain), 1e-5, wide_y, flat(wide_rstd));
  add_rms_norm(ctx, x, b, sum, flat(gain), 1e-5, y.view(), flat(rstd));
  CHECK(distance(y, wide_y) < 1e-6);
  add_rms_norm(ctx, x, b, sum, flat(gain), 1e-5, narrow.view(), flat(rstd));
  CHECK(distance(narrow, wide_y) < rounding);
  CHECK(distance(sum, wide_sum) < 1e-6);
  rms_norm(oracle, widened(x), flat(wide_gain), 1e-5, wide_y, flat(wide_rstd));
  rms_norm(ctx, x, flat(gain), 1e-5, narrow.view(), flat(rstd));
  CHECK(distance(narrow, wide_y) < rounding);
  CHECK(distance(rstd, wide_rstd) < 1e-6);

  auto const in = normal<bfloat16>(tokens, width, 4, 3);
  auto const d = normal<bfloat16>(tokens, width, 5, 1);
  auto const head_gain = normal<float>(1, head_dim, 6);
  auto const wide_head_gain = widened(head_gain);
  matrix<float> head_rstd(tokens, heads), dgain(1, head_dim);
  matrix<double> wide_head_rstd(tokens, heads), wide_dgain(1, head_dim), wide_dx(tokens, width);
  matrix<bfloat16> dx(tokens, width, 2);
  head_rms_norm(ctx, in, flat(head_gain), 1e-5, narrow, head_rstd);
  head_rms_norm(oracle, widened(in), flat(wide_head_gain), 1e-5, wide_y, wide_head_rstd);
  CHECK(distance(narrow, wide_y) < rounding);
  head_rms_norm_backward(ctx, in, flat(head_gain), head_rstd, d, dx, flat(dgain), store::replace);
  head_rms_norm_backward(oracle, widened(in), flat(wide_head_gain), wide_head_rstd, widened(d), wide_dx,
                         flat(wide_dgain), store::replace);
  CHECK(distance(dx, wide_dx) < rounding);
  CHECK(distance(dgain, wide_dgain) < 1e-5);

  auto const frequencies = test::plain_frequencies(head_dim, 100.0);
  matrix<float> cosines(tokens, head_dim / 2), sines(tokens, head_dim / 2);
  matrix<double> wide_cosines(tokens, head_dim / 2), wide_sines(tokens, head_dim / 2);
  rotary_table(ctx, frequencies, cosines, sines);
  rotary_table(oracle, frequencies, wide_cosines, wide_sines);
  std::vector<std::int32_t> positions(std::size_t(tokens), 0);
  for (std::size_t t = 0; t < positions.size(); ++t) positions[t] = std::int32_t((7 * t) % positions.size());
  ac::view<std::int32_t const, 1> const at(positions.data(), {tokens});
  auto turned = copy_of(in, 2);
  auto wide_turned = widened(in);
  rotary(ctx, turned, at, cosines, sines, ac::rotation::forward);
  rotary(oracle, wide_turned, at, wide_cosines, wide_sines, ac::rotation::forward);
  CHECK(distance(turned, wide_turned) < rounding);

  auto const table = normal<bfloat16>(tokens, width, 8);
  embed(ctx, table, at, y);
  embed(oracle, widened(table), at, wide_y);
  CHECK(distance(y, wide_y) == 0);

  auto biased = copy_of(in, 1);
  auto wide_biased = widened(in);
  add_bias(ctx, flat(gain), biased.view());
  add_bias(oracle, flat(wide_gain), wide_biased);
  CHECK(distance(biased, wide_biased) < rounding);
  matrix<float> dbias(1, width);
  matrix<double> wide_dbias(1, width);
  add_bias_backward(ctx, d, flat(dbias));
  add_bias_backward(oracle, widened(d), flat(wide_dbias));
  CHECK(distance(dbias, wide_dbias) < 1e-6);
}

TEST_CASE("swiglu and its backward in bfloat16 are those of the rounded numbers", "[cpu][bfloat16]") {
  ac::cpu::backend<bfloat16> const ctx(2);
  for (index_t const width : {3, 512, 700}) {
    auto const gate_up = normal<bfloat16>(19, 2 * width, 1, 3);
    auto const d = normal<bfloat16>(19, width, 2, 1);
    matrix<bfloat16> out(19, width, 2), dgate_up(19, 2 * width, 1);
    matrix<double> wide_out(19, width), wide_dgate_up(19, 2 * width);
    swiglu(ctx, gate_up, out);
    swiglu(oracle, widened(gate_up), wide_out);
    swiglu_backward(ctx, gate_up, d, dgate_up);
    swiglu_backward(oracle, widened(gate_up), widened(d), wide_dgate_up);
    CAPTURE(width);
    CHECK(distance(out, wide_out) < rounding);
    CHECK(distance(dgate_up, wide_dgate_up) < rounding);
  }
}

TEMPLATE_LIST_TEST_CASE("attention and its backward in bfloat16 are near those of the rounded numbers",
                        "[cpu][bfloat16][attention]", providers) {
  ac::cpu::backend<bfloat16, TestType> const ctx(2);
  ac::attention_shape const shape{6, 2, 16, 0.3};
  std::vector<index_t> const ends{0, 1, 150, 150, 193, 500};  // the last one: more than a block of keys
  ac::view<index_t const, 1> const documents(ends.data(), {index_t(ends.size())});
  index_t const tokens = ends.back();
  auto const q = normal<bfloat16>(tokens, 96, 1, 1), dout = normal<bfloat16>(tokens, 96, 2, 2);
  auto const k = normal<bfloat16>(tokens, 32, 3, 3), v = normal<bfloat16>(tokens, 32, 4, 1);
  matrix<bfloat16> out(tokens, 96, 1), dq(tokens, 96, 2), dk(tokens, 32, 1), dv(tokens, 32, 3);
  matrix<float> sums(tokens, 6);
  matrix<double> wide_out(tokens, 96), wide_dq(tokens, 96), wide_dk(tokens, 32), wide_dv(tokens, 32);
  matrix<double> wide_sums(tokens, 6);
  attention(ctx, q, k, v, documents, shape, out, sums);
  attention(oracle, widened(q), widened(k), widened(v), documents, shape, wide_out, wide_sums);
  CHECK(distance(out, wide_out) < 2 * rounding);
  CHECK(distance(sums, wide_sums) < 1e-5);
  attention_backward(ctx, q, k, v, documents, shape, out, sums, dout, dq, dk, dv);
  attention_backward(oracle, widened(q), widened(k), widened(v), documents, shape, wide_out, wide_sums,
                     widened(dout), wide_dq, wide_dk, wide_dv);
  CHECK(distance(dq, wide_dq) < 3 * rounding);
  CHECK(distance(dk, wide_dk) < 3 * rounding);
  CHECK(distance(dv, wide_dv) < 2 * rounding);
}

TEST_CASE("losses of a bfloat16 backend are taken in float, their gradient is rounded once",
          "[cpu][bfloat16]") {
  index_t const rows = 9, vocabulary = 2100;
  auto const teacher = normal<half>(rows, vocabulary, 1), logits = normal<half>(rows, vocabulary, 2);
  auto const in_float = [](matrix<half> const& m) {
    matrix<float> wide(m.view().rows(), m.view().columns());
    for (index_t t = 0; t < m.view().rows(); ++t)
      for (index_t i = 0; i < m.view().columns(); ++i) wide(t, i) = m(t, i);
    return wide;
  };
  std::vector<std::int32_t> targets{5, 2099, ac::ignore_target, 0, 1024, 1023, 7, 8, 9};
  ac::view<std::int32_t const, 1> const ids(targets.data(), {rows});
  for (double const tau : {1.0, 2.0}) {
    ac::distillation_weights const weights{tau, 0.7, 0.3, 0.125};
    auto student = copy_of(logits);
    auto wide = in_float(logits);
    matrix<bfloat16> gradient(rows, vocabulary, 1);
    double sums[2] = {}, wide_sums[2] = {};
    distillation_loss(ac::cpu::backend<bfloat16>(2), teacher, student, gradient, ids, weights, {sums, {2}});
    distillation_loss(ac::cpu::backend<float>(2), in_float(teacher), wide, wide, ids, weights, {wide_sums, {2}});
    CHECK(sums[0] == wide_sums[0]);
    CHECK(sums[1] == wide_sums[1]);
    bool rounded_once = true;
    for (index_t t = 0; t < rows; ++t)
      for (index_t i = 0; i < vocabulary; ++i)
        rounded_once = rounded_once && gradient(t, i).bits == bfloat16(wide(t, i)).bits;
    CHECK(rounded_once);
    // Over the logits themselves, each row from where theirs begins.
    auto over = copy_of(logits);
    double over_sums[2] = {};
    ac::view<half, 2> const there = over;
    ac::view<bfloat16, 2> const laid{reinterpret_cast<bfloat16*>(there.data), there.extents, there.stride};
    distillation_loss(ac::cpu::backend<bfloat16>(2), teacher, there, laid, ids, weights, {over_sums, {2}});
    CHECK((over_sums[0] == sums[0] && over_sums[1] == sums[1]));
    bool same = true;
    for (index_t t = 0; t < rows; ++t)
      same = same && std::memcmp(laid.row(t), &gradient(t, 0), std::size_t(vocabulary) * sizeof(bfloat16)) == 0;
    CHECK(same);
  }
}

TEST_CASE("adamw of a bfloat16 backend moves f32 weights and stores them rounded", "[cpu][bfloat16]") {
  index_t const n = 2500;
  auto weights = normal<float>(1, n, 1), plain = copy_of(weights);
  auto const gradient = normal<float>(1, n, 2);
  matrix<float> m(1, n), v(1, n), plain_m(1, n), plain_v(1, n);
  matrix<bfloat16> stored(1, n);
  for (std::int64_t step = 1; step <= 3; ++step) {
    // A rate far below half a unit in the last place of eight bits: bfloat16 weights would not move at all.
    ac::adamw_step const update{.learning_rate = 1e-5, .weight_decay = 0.1, .step = step};
    adamw(ac::cpu::backend<bfloat16>(2), flat(weights), flat(gradient), flat(m), flat(v), update, flat(stored));
    adamw(ac::cpu::backend<float>(2), flat(plain), flat(gradient), flat(plain_m), flat(plain_v), update);
  }
  CHECK(same_bits(weights, plain));
  bool follows = true;
  for (index_t i = 0; i < n; ++i) follows = follows && stored(0, i).bits == bfloat16(weights(0, i)).bits;
  CHECK(follows);
}
