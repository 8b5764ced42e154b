// labels: threads
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <vector>

#include "accrete/cpu/backend.hpp"
#include "accrete/reference/backend.hpp"
#include "support/agreement.hpp"
#include "support/catch.hpp"

namespace ac = accrete;
using ac::index_t;
using test::distance;
using test::matrix;
using test::normal;
using test::tolerance;
using test::widened;

using scalars = std::tuple<float, double>;
ac::reference::backend<double> const oracle;

struct attention_case {
  std::vector<index_t> documents;
  ac::attention_shape shape;
};

// Lengths of 0 and 1, below, at and above the blocks' borders; groups of 1 to 9 heads; odd head sizes.
std::vector<attention_case> const cases = {
    {{0, 1}, {1, 1, 1, 1.0}},          {{0, 3, 3, 4, 11}, {2, 1, 3, 0.7}},   {{0, 33, 34, 163}, {3, 3, 7, 0.5}},
    {{0, 129, 130}, {9, 3, 16, 0.25}}, {{0, 64, 128, 384}, {6, 2, 33, 0.2}}, {{0, 300}, {9, 1, 8, 0.35}},
    {{0, 0, 257}, {2, 2, 129, 0.1}},
};

ac::view<index_t const, 1> offsets(std::vector<index_t> const& documents) {
  return {documents.data(), {index_t(documents.size())}};
}

TEMPLATE_LIST_TEST_CASE("attention and its backward agree with plain loops", "[cpu][attention]", scalars) {
  using T = TestType;
  for (auto const& [documents, shape] : cases) {
    index_t const tokens = documents.back();
    index_t const wide = shape.heads * shape.head_dim;
    index_t const narrow = shape.kv_heads * shape.head_dim;
    for (index_t const gap : {0, 5}) {
      auto const q = normal<T>(tokens, wide, 1, gap, 2.0);
      auto const k = normal<T>(tokens, narrow, 2, gap, 2.0);
      auto const v = normal<T>(tokens, narrow, 3, gap);
      auto const dout = normal<T>(tokens, wide, 4, gap);
      matrix<T> out(tokens, wide, gap);
      matrix<T> log_sum_exp(tokens, shape.heads, gap);
      // What was there before must not show.
      auto dq = normal<T>(tokens, wide, 5, gap);
      auto dk = normal<T>(tokens, narrow, 6, gap);
      auto dv = normal<T>(tokens, narrow, 7, gap);
      matrix<double> wide_out(tokens, wide);
      matrix<double> wide_log_sum_exp(tokens, shape.heads);
      matrix<double> wide_dq(tokens, wide);
      matrix<double> wide_dk(tokens, narrow);
      matrix<double> wide_dv(tokens, narrow);
      auto const wide_q = widened(q);
      auto const wide_k = widened(k);
      auto const wide_v = widened(v);
      auto const wide_dout = widened(dout);

      ac::cpu::backend<T> const ctx(2);
      attention(ctx, q, k, v, offsets(documents), shape, out, log_sum_exp);
      attention(oracle, wide_q, wide_k, wide_v, offsets(documents), shape, wide_out, wide_log_sum_exp);
      attention_backward(ctx, q, k, v, offsets(documents), shape, out, log_sum_exp, dout, dq, dk, dv);
      attention_backward(oracle, wide_q, wide_k, wide_v, offsets(documents), shape, wide_out, wide_log_sum_exp,
                         wide_dout, wide_dq, wide_dk, wide_dv);

      CAPTURE(tokens, shape.heads, shape.kv_heads, shape.head_dim, gap);
      REQUIRE(distance(out, wide_out) < tolerance<T>);
      REQUIRE(distance(log_sum_exp, wide_log_sum_exp) < tolerance<T>);
      REQUIRE(distance(dq, wide_dq) < 2 * tolerance<T>);
      REQUIRE(distance(dk, wide_dk) < 2 * tolerance<T>);
      REQUIRE(distance(dv, wide_dv) < 2 * tolerance<T>);
    }
  }
}

TEST_CASE("attention keeps scores far from zero apart", "[cpu][attention]") {
  // Scores of +-thousands: exponentials of any but the row's own largest would overflow or vanish.
  ac::attention_shape const shape{2, 1, 8, 1.0};
  std::vector<index_t> const documents{0, 200};
  auto const q = normal<double>(200, 16, 1, 0, 30.0);
  auto const k = normal<double>(200, 8, 2, 0, 30.0);
  auto const v = normal<double>(200, 8, 3);
  matrix<double> out(200, 16), log_sum_exp(200, 2), expected(200, 16), expected_log_sum_exp(200, 2);
  attention(ac::cpu::backend<double>(1), q, k, v, offsets(documents), shape, out, log_sum_exp);
  attention(oracle, q, k, v, offsets(documents), shape, expected, expected_log_sum_exp);
  REQUIRE(distance(out, expected) < 1e-10);
  REQUIRE(distance(log_sum_exp, expected_log_sum_exp) < 1e-12);
}

TEST_CASE("attention gives the same bits on every run and for every number of threads", "[cpu][attention]") {
  ac::attention_shape const shape{6, 3, 16, 0.25};
  std::vector<index_t> const documents{0, 150, 151, 400, 470};
  auto const q = normal<float>(470, 96, 1);
  auto const k = normal<float>(470, 48, 2);
  auto const v = normal<float>(470, 48, 3);
  auto const dout = normal<float>(470, 96, 4);
  auto const run = [&](int threads) {
    ac::cpu::backend<float> const ctx(threads);
    std::vector<matrix<float>> results;
    for (index_t const columns : {96, 6, 96, 48, 48}) results.emplace_back(470, columns);
    attention(ctx, q, k, v, offsets(documents), shape, results[0], results[1]);
    attention_backward(ctx, q, k, v, offsets(documents), shape, results[0], results[1], dout, results[2],
                       results[3], results[4]);
    return results;
  };
  auto const first = run(2);
  for (int const threads : {2, 1, 3}) {
    auto const again = run(threads);
    for (std::size_t i = 0; i < first.size(); ++i) REQUIRE(same_bits(first[i], again[i]));
  }
}

TEST_CASE("attention refuses documents and heads that do not fit", "[cpu][attention]") {
  ac::cpu::backend<float> const ctx(1);
  matrix<float> const q(4, 6), k(4, 3);
  matrix<float> out(4, 6), log_sum_exp(4, 2);
  std::vector<index_t> const documents{0, 4};
  std::vector<index_t> const short_documents{0, 3};
  std::vector<index_t> const falling{0, 3, 2, 4};
  ac::attention_shape const shape{2, 1, 3, 1.0};
  REQUIRE_NOTHROW(attention(ctx, q, k, k, offsets(documents), shape, out, log_sum_exp));
  REQUIRE_THROWS_AS(attention(ctx, q, k, k, offsets(short_documents), shape, out, log_sum_exp),
                    ac::shape_error);
  REQUIRE_THROWS_AS(attention(ctx, q, k, k, offsets(falling), shape, out, log_sum_exp), ac::shape_error);
  REQUIRE_THROWS_AS(attention(ctx, q, k, k, offsets(documents), {3, 2, 2, 1.0}, out, log_sum_exp),
                    ac::shape_error);
  REQUIRE_THROWS_AS(attention(ctx, q, q, k, offsets(documents), shape, out, log_sum_exp), ac::shape_error);
}
