#include "accrete/cpu/backend.hpp"
#include "support/student_fixture.hpp"

using backend = accrete::cpu::backend<double>;

TEMPLATE_LIST_TEST_CASE("a student's step is that of plain PyTorch", "[train][fixture]",
                        test::fixture_placements) {
  test::check_step<TestType, backend>();
}

TEMPLATE_LIST_TEST_CASE("twelve updates with growth are those of plain PyTorch", "[train][fixture]",
                        test::fixture_placements) {
  accrete::index_t const micro_tokens = GENERATE(0, 13);  // 13: the longest document
  INFO("micro-batches of " << micro_tokens);
  test::check_run<TestType, backend>(micro_tokens);
}
