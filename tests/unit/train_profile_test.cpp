#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "accrete/cpu/backend.hpp"
#include "accrete/growth/joint.hpp"
#include "accrete/model/student.hpp"
#include "accrete/train/distillation_step.hpp"
#include "accrete/train/profile_report.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/sized_model.hpp"

using namespace accrete;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr test::model_size size{96, 2, 6, 3, 16, 160, 1000};

/// Gradients of one batch of 16 + 48 tokens, noted or not; the useful operations of it.
template <class B>
double one_step(B ctx) {
  auto teacher = test::sized_teacher(size, ctx);
  student<placement::pre, growth::joint<2, 1>, B> of(teacher, seed{42});
  recipe r;
  r.batch_tokens = 64;
  train::distillation_step<B> step(of, teacher, r);
  step.resize();
  auto const text = test::sized_corpus(2, {16, 48}, size.vocabulary);
  data::ragged_batch batch;
  for (index_t d = 0; d < 2; ++d) batch.append(text.document(d), d);
  distillation::teacher_states<B> states(teacher, 64);
  auto const sums = step.compute_gradients(batch, states);
  (void)step.update(sums, 1e-3, 1);
  return step.operations(batch, true);
}

}  // namespace

TEMPLATE_TEST_CASE("a profile has every operation of a step with what it did", "[train][profile]",
                   cpu::backend<float>, cpu::backend<bfloat16>) {
  profile p;
  TestType ctx(2);
  ctx.profile_into(&p);
  double const useful = one_step(ctx);
  double products = 0;
  for (auto const& row : train::profile_rows(p, false)) {
    CHECK(row.seconds >= 0);
    CHECK(row.bytes > 0);
    products += row.operations;
  }
  // Scores are counted with the diagonal and attention's backward with what it makes again.
  CHECK(products > useful);
  CHECK(products < 1.05 * useful);
  auto const rows = train::profile_rows(p, false);
  auto const calls = [&](char const* name) {
    for (auto const& r : rows)
      if (r.name == name) return r.calls;
    return std::size_t(0);
  };
  CHECK(calls("attention") == 4);  // 2 layers of the teacher, 2 of the student
  CHECK(calls("attention_backward") == 2);
  CHECK(calls("swiglu_backward") == 2);
  CHECK(calls("distillation_loss") == 1);
  CHECK(train::profile_rows(p, true).size() == 5);

  auto const table = train::profile_table(p);
  CHECK_THAT(table, ContainsSubstring("linear_backward_weight"));
  CHECK_THAT(table, ContainsSubstring("student's backward"));
  CHECK_THAT(table, ContainsSubstring("between operations"));

  test::temporary_folder const folder;
  train::write_trace(p, folder / "trace.json");
  auto const trace = nlohmann::json::parse(test::read_file(folder / "trace.json"));
  CHECK(trace["traceEvents"].size() == p.events().size() + 2);
  for (auto const& e : trace["traceEvents"])
    if (e["ph"] == "X") REQUIRE(e["dur"].get<double>() >= 0);
}

TEST_CASE("a profile holds as many events as it has room for, and counts the rest", "[train][profile]") {
  profile small(3);
  cpu::backend<float> ctx(1);
  ctx.profile_into(&small);
  (void)one_step(ctx);
  CHECK(small.events().size() == 3);
  CHECK(small.dropped() > 10);
  CHECK_THAT(train::profile_table(small), ContainsSubstring("past the profile's room"));
  small.clear();
  ctx.profile_into(nullptr);
  (void)one_step(ctx);
  CHECK(small.events().empty());
  CHECK(train::profile_table(small) == "no operation was noted\n");
}
