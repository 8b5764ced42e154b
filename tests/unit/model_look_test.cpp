#include <cstddef>
#include <set>
#include <type_traits>
#include <utility>
#include <vector>

#include "accrete/reference/backend.hpp"
#include "support/catch.hpp"
#include "support/step_by_hand.hpp"

using namespace accrete;
using oracle = reference::backend<double>;

namespace {

template <class Stack>
std::set<std::pair<int, int>> shown(Stack& stack, oracle const& ctx, model::matrix_in<oracle> embedding,
                                    data::ragged_batch const& batch, typename Stack::workspace& w) {
  std::set<std::pair<int, int>> points;
  stack.forward(ctx, embedding, model::views_of(batch), w, [&](int sublayers, int stream, auto rows) {
    CHECK(rows.rows() == batch.num_tokens());
    CHECK(points.emplace(sublayers, stream).second);
  });
  return points;
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("a look at the streams sees each once and changes nothing", "[model][look]",
                        test::placements) {
  auto teacher = test::tiny_teacher<oracle>();
  accrete::student<TestType, test::joint_for<TestType>, oracle> pupil(teacher, {1});
  auto const batch = test::random_batch({5, 1, 3});
  auto& stack = pupil.stack();
  for (bool const training : {true, false}) {
    auto w = stack.make_workspace(12, training);
    auto const before = test::named("", pupil.forward(model::views_of(batch), w));
    auto const points = shown(stack, pupil.context(), pupil.embedding(), batch, w);
    CHECK(test::same_bits(test::named("", w.hidden.slice(0, batch.num_tokens())).numbers, before.numbers));

    constexpr bool whole_layer = std::is_same_v<TestType, placement::hybrid>;
    std::set<std::pair<int, int>> expected;
    for (int i = 0; i <= 2 * stack.num_layers(); i += whole_layer ? 2 : 1)
      for (int s = 0; s < placement::num_streams<TestType>; ++s) expected.emplace(i, s);
    CHECK(points == expected);
  }
}

TEST_CASE("a look sees the stream after the sublayer that it names", "[model][look]") {
  auto teacher = test::tiny_teacher<oracle>();
  accrete::student<placement::pre, growth::joint<1, 1>, oracle> pupil(teacher, {1});
  auto& layer = pupil.stack().layers()[0];
  model::fill(pupil.context(), layer.output, 0.5);
  model::fill(pupil.context(), layer.down, 0.0);  // an MLP that adds nothing
  auto const batch = test::random_batch({4});
  auto w = pupil.make_workspace(4);
  std::vector<std::vector<double>> seen;
  pupil.stack().forward(pupil.context(), pupil.embedding(), model::views_of(batch), w,
                        [&](int, int, auto rows) { seen.push_back(test::named("", rows).numbers); });
  REQUIRE(seen.size() == 3);
  for (std::size_t t = 0; t < 4; ++t) CHECK(seen[0][t * 12] == pupil.embedding()(batch.tokens[t], 0));
  CHECK(seen[1] != seen[0]);
  CHECK(seen[2] == seen[1]);
}
