// labels: slow
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "accrete/cpu/backend.hpp"
#include "accrete/data/ragged_batch.hpp"
#include "accrete/distill/vocabulary_head.hpp"
#include "accrete/growth/joint.hpp"
#include "accrete/io/content_hash.hpp"
#include "accrete/model/load_teacher.hpp"
#include "accrete/model/student.hpp"
#include "accrete/placement/post.hpp"
#include "support/catch.hpp"
#include "support/step_by_hand.hpp"
#include "support/teacher.hpp"

using namespace accrete;

namespace {

using backend_type = cpu::backend<float>;

constexpr char const* sentence =
    "The history of the steam engine begins in the seventeenth century, when Thomas Savery patented a pump for "
    "draining mines. Thomas Newcomen improved the design in 1712, and James Watt added a separate condenser in "
    "1765.";

data::ragged_batch batch_of(std::string const& text, data::tokenizer const& words) {
  std::vector<std::int32_t> ids;
  words.encode(text, ids);
  data::ragged_batch batch;
  batch.append(ids);
  return batch;
}

std::string fingerprint(teacher<backend_type>& t) {
  io::content_hash hash;
  auto add = [&](auto v) { hash.update(std::as_bytes(std::span(v.data, std::size_t(v.size())))); };
  t.stack().parameters([&](auto& p) { add(p.value.view()); });
  add(t.embedding()->view());
  add(t.head()->view());
  return hash.hex();
}

}  // namespace

TEST_CASE("the teacher reads its tokens and scores the sentence as measured elsewhere",
          "[model][teacher][U18]") {
  auto t = load_teacher<backend_type>(test::teacher_file(), {}, 128);
  auto const batch = batch_of(sentence, t.tokenizer());
  REQUIRE(batch.num_tokens() == 51);
  REQUIRE(std::vector<std::int32_t>(batch.tokens.begin(), batch.tokens.begin() + 12) ==
          std::vector<std::int32_t>{504, 1463, 282, 260, 9403, 2327, 5634, 281, 260, 26161, 2070, 28});
  auto const views = model::views_of(batch);
  auto w = t.make_workspace(64);
  auto const hidden = t.forward(views, w);
  for (auto const slices : {distillation::slice_lengths{64, 16}, distillation::slice_lengths{7, 1}}) {
    distillation::vocabulary_head<backend_type> head(t.config().vocab_size, slices);
    double const ce = head.cross_entropy_of(t.context(), hidden, t.head()->view(), views.targets).ce / 50;
    CHECK(std::abs(ce - 2.57719) < 1e-4);
  }
  auto const once = test::named("", hidden);

  // A student is built and trained: the teacher stays what it was, to the bit.
  auto const before = fingerprint(t);
  student<placement::post, growth::joint<2, 1>, backend_type> s(t, seed{42});
  test::step_by_hand step(t, s, batch, {64, 16});
  double losses[2];
  for (double& loss : losses) {
    test::zero_gradients(s);
    auto const sums = step.step();
    loss = 0.7 * sums.kd + 0.3 * sums.ce;
    test::descend(s, 1e-4);
  }
  CHECK(std::isfinite(losses[0]));
  CHECK(losses[1] < losses[0]);
  CHECK(fingerprint(t) == before);
  CHECK(test::same_bits(test::named("", t.forward(views, w)).numbers, once.numbers));
}
