#include "accrete/reference/attention.hpp"

#include <cmath>
#include <initializer_list>

#include "accrete/core/error.hpp"
#include "support/catch.hpp"
#include "support/gradient.hpp"
#include "support/matrix.hpp"

using namespace accrete;
using test::matrix;

namespace {

constexpr reference::backend<double> ctx;

/// q|k|v in one buffer with its outputs and gradients, as a model holds them.
struct fixture {
  attention_shape shape;
  test::offsets documents;
  matrix<> qkv, out, log_sum_exp, dout, dqkv;

  fixture(attention_shape s, std::initializer_list<index_t> offsets, index_t pad = 0)
      : shape(s),
        documents(offsets),
        qkv(matrix<>::random(tokens(), (s.heads + 2 * s.kv_heads) * s.head_dim, "qkv", pad)),
        out(tokens(), s.heads * s.head_dim, pad),
        log_sum_exp(tokens(), s.heads, pad),
        dout(matrix<>::random(tokens(), s.heads * s.head_dim, "dout", pad)),
        dqkv(tokens(), (s.heads + 2 * s.kv_heads) * s.head_dim, pad) {
    dqkv.fill(99.0);
  }
  index_t tokens() const { return documents(documents.view().rows() - 1); }
  view<double, 2> q(matrix<>& m) const { return m.view().column_slice(0, shape.heads * shape.head_dim); }
  view<double, 2> k(matrix<>& m) const {
    return m.view().column_slice(shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim);
  }
  view<double, 2> v(matrix<>& m) const {
    return m.view().column_slice((shape.heads + shape.kv_heads) * shape.head_dim,
                                 shape.kv_heads * shape.head_dim);
  }
  void forward() { attention(ctx, q(qkv), k(qkv), v(qkv), documents, shape, out, log_sum_exp); }
  void backward() {
    attention_backward(ctx, q(qkv), k(qkv), v(qkv), documents, shape, out, log_sum_exp, dout, q(dqkv), k(dqkv),
                       v(dqkv));
  }
  double loss() {
    forward();
    return test::inner_product<double>(out.view(), dout.view());
  }
};

}  // namespace

TEST_CASE("reference attention is the softmax of scaled scores over the past", "[reference][attention]") {
  // One head of one number: scores are scale q_t k_j.
  fixture f({1, 1, 1, 0.5}, {0, 3});
  f.qkv = matrix<>(3, 3, {2, 1, 10, -1, 3, 20, 4, 0.5, 40});
  f.forward();
  auto const e = [](double s) { return std::exp(s); };
  double const second = (e(-0.5) * 10 + e(-1.5) * 20) / (e(-0.5) + e(-1.5));
  double const third = (e(2) * 10 + e(6) * 20 + e(1) * 40) / (e(2) + e(6) + e(1));
  REQUIRE(test::difference(f.out, {10, second, third}) < 1e-13);
  REQUIRE(test::difference(f.log_sum_exp, {1, std::log(e(-0.5) + e(-1.5)), std::log(e(2) + e(6) + e(1))}) <
          1e-14);
}

TEST_CASE("reference attention repeats key/value heads, it does not tile them", "[reference][attention]") {
  // U32: four query heads over two key/value heads whose values are 10 and 20; tiling gives [10, 20, 10, 20].
  fixture f({4, 2, 1, 1.0}, {0, 2});
  for (index_t t = 0; t < 2; ++t) {
    f.v(f.qkv)(t, 0) = 10;
    f.v(f.qkv)(t, 1) = 20;
  }
  f.forward();
  REQUIRE(test::difference(f.out, {10, 10, 20, 20, 10, 10, 20, 20}) < 1e-14);

  // The first token sees itself alone: dv of a head there, from that token, is the sum of its group's dout.
  fixture one({4, 2, 1, 1.0}, {0, 1});
  one.forward();
  one.backward();
  REQUIRE(std::abs(one.v(one.dqkv)(0, 0) - (one.dout(0, 0) + one.dout(0, 1))) < 1e-15);
  REQUIRE(std::abs(one.v(one.dqkv)(0, 1) - (one.dout(0, 2) + one.dout(0, 3))) < 1e-15);
}

TEST_CASE("reference attention has the gradients of its value", "[reference][attention][grad]") {
  index_t const pad = GENERATE(0, 2);
  auto const check = [&](attention_shape shape, std::initializer_list<index_t> documents) {
    fixture f(shape, documents, pad);
    auto const loss = [&] { return f.loss(); };
    loss();
    f.backward();
    REQUIRE(test::relative_gradient_error(f.q(f.qkv), f.q(f.dqkv), loss) < 1e-8);
    REQUIRE(test::relative_gradient_error(f.k(f.qkv), f.k(f.dqkv), loss) < 1e-8);
    REQUIRE(test::relative_gradient_error(f.v(f.qkv), f.v(f.dqkv), loss) < 1e-8);
    REQUIRE((f.out.guards_hold() && f.log_sum_exp.guards_hold() && f.dqkv.guards_hold()));
  };
  attention_shape const grouped{4, 2, 3, 0.7}, single{1, 1, 1, 1.0}, one_kv{3, 1, 5, 0.4};
  for (auto const& shape : {grouped, single, one_kv}) {
    check(shape, {0, 1});
    check(shape, {0, 1, 3});
    check(shape, {0, 3, 4, 7});
    check(shape, {0, 7});
    check(shape, {0, 0, 2, 2, 3});  // documents of no token
  }
}

TEST_CASE("reference attention never lets documents meet", "[reference][attention]") {
  // U31: four tokens behind three others, and alone; and the three others changed.
  attention_shape const shape{4, 2, 3, 0.7};
  fixture packed(shape, {0, 3, 7}), alone(shape, {0, 4});
  for (index_t t = 0; t < 4; ++t) {
    for (index_t i = 0; i < 24; ++i) alone.qkv(t, i) = packed.qkv(t + 3, i);
    for (index_t i = 0; i < 12; ++i) alone.dout(t, i) = packed.dout(t + 3, i);
  }
  alone.forward();
  alone.backward();
  auto const same = [&] {
    bool equal = true;
    for (index_t t = 0; t < 4; ++t) {
      for (index_t i = 0; i < 12; ++i) equal = equal && alone.out(t, i) == packed.out(t + 3, i);
      for (index_t i = 0; i < 24; ++i) equal = equal && alone.dqkv(t, i) == packed.dqkv(t + 3, i);
      for (index_t h = 0; h < 4; ++h) equal = equal && alone.log_sum_exp(t, h) == packed.log_sum_exp(t + 3, h);
    }
    return equal;
  };
  packed.forward();
  packed.backward();
  REQUIRE(same());
  for (index_t t = 0; t < 3; ++t) {
    for (index_t i = 0; i < 24; ++i) packed.qkv(t, i) = 1e3 * double(t + i);
    for (index_t i = 0; i < 12; ++i) packed.dout(t, i) = -5;
  }
  packed.forward();
  packed.backward();
  REQUIRE(same());
}

TEST_CASE("reference attention looks back only, and a lone token at itself", "[reference][attention][U30]") {
  attention_shape const shape{2, 1, 3, 0.7};
  fixture f(shape, {0, 1, 5});
  f.forward();
  for (index_t i = 0; i < 6; ++i) REQUIRE(std::abs(f.out(0, i) - f.v(f.qkv)(0, i % 3)) < 1e-15);
  matrix<> before(5, 6);
  before.copy_from(f.out);
  for (index_t i = 0; i < 12; ++i) f.qkv(4, i) = 50.0 - double(i);
  f.forward();
  for (index_t t = 0; t < 4; ++t) {
    for (index_t i = 0; i < 6; ++i) REQUIRE(f.out(t, i) == before(t, i));
  }
  REQUIRE(f.out(4, 0) != before(4, 0));
}

TEST_CASE("reference attention survives scores past the range of exp", "[reference][attention]") {
  fixture f({1, 1, 1, 1.0}, {0, 3});
  f.qkv = matrix<>(3, 3, {1, 2000, 1, 1, 3000, 2, -1, 4000, 3});
  f.forward();
  f.backward();
  REQUIRE(test::difference(f.out, {1, 2, 1}) < 1e-14);
  REQUIRE(test::difference(f.log_sum_exp, {2000, 3000, -2000}) < 1e-9);
  for (index_t t = 0; t < 3; ++t) {
    for (index_t i = 0; i < 3; ++i) REQUIRE(std::isfinite(f.dqkv(t, i)));
  }
}

TEST_CASE("reference attention refuses offsets and heads that do not fit", "[reference][attention]") {
  attention_shape const shape{4, 2, 3, 1.0};
  auto const message = [](attention_shape s, std::initializer_list<index_t> offsets) {
    fixture f({4, 2, 3, 1.0}, {0, 5});
    test::offsets const documents(offsets);
    attention(ctx, f.q(f.qkv), f.k(f.qkv), f.v(f.qkv), documents, s, f.out, f.log_sum_exp);
  };
  REQUIRE_THROWS_WITH(message(shape, {0, 4}),
                      "attention: got documents from 0 to 4, expected from 0 to the 5 tokens");
  REQUIRE_THROWS_AS(message(shape, {1, 5}), shape_error);
  REQUIRE_THROWS_AS(message(shape, {}), shape_error);
  REQUIRE_THROWS_WITH(message(shape, {0, 4, 2, 5}),
                      "attention: got document 1 from 4 to 2, expected offsets that never fall");
  REQUIRE_THROWS_AS(message({4, 3, 3, 1.0}, {0, 5}), shape_error);
  REQUIRE_THROWS_AS(message({4, 0, 3, 1.0}, {0, 5}), shape_error);
  REQUIRE_THROWS_WITH(
      message({4, 2, 3, -1.0}, {0, 5}),
      "attention: got scores times -1.000000, expected a finite scale above 0, usually head_dim^-0.5");
  REQUIRE_THROWS_WITH(message({2, 2, 3, 1.0}, {0, 5}), "attention: got q [5, 12], expected [5, 6]");
}
