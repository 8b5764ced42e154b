#include <string>

#include "accrete/cpu/backend.hpp"
#include "accrete/distill/vocabulary_head.hpp"
#include "accrete/reference/backend.hpp"
#include "support/student_fixture.hpp"

// What transformers makes of its own models, computed there in double.
TEMPLATE_TEST_CASE("a teacher's streams, logits and loss are those of transformers", "[model][fixture]",
                   accrete::reference::backend<double>, accrete::cpu::backend<double>,
                   accrete::cpu::backend<float>) {
  std::string const name = GENERATE("qwen3", "llama", "qwen2", "llama3");
  INFO(name);
  test::fixture const f("teacher_" + name);
  auto teacher = test::fixture_teacher<TestType>(name);
  auto const batch = f.batch();
  auto& stack = teacher.stack().template as<accrete::model::block_stack<accrete::placement::pre, TestType>>();
  auto w = stack.make_workspace(batch.num_tokens(), false);
  test::check_forward<TestType>(stack, teacher.context(), teacher.embedding()->view(), teacher.head()->view(),
                                f, w);

  auto const views = accrete::model::views_of(batch);
  accrete::distillation::vocabulary_head<TestType> head(teacher.config().vocab_size, {4, 3});
  auto const sums = head.cross_entropy_of(
      teacher.context(), stack.forward(teacher.context(), teacher.embedding()->view(), views, w),
      teacher.head()->view(), views.targets);
  CHECK(sums.targets == batch.num_targets);
  CHECK(test::relative(sums.mean_ce(), f.number("ce")) < test::fixture_tolerance<typename TestType::scalar>);
}
