// Students of SCHEDULES schedules, 1 or 10, each built, grown and trained for a step: what check.sh counts in.
#include <tuple>
#include <type_traits>

#include "accrete/distill/vocabulary_head.hpp"
#include "accrete/growth/curriculum.hpp"
#include "accrete/growth/freeze.hpp"
#include "accrete/growth/joint.hpp"
#include "accrete/model/student.hpp"
#include "accrete/placement/post.hpp"
#include "accrete/reference/backend.hpp"

using namespace accrete;
using backend_type = reference::backend<double>;

template <class Schedule>
void train(teacher<backend_type>& of, model::token_batch<mem::host> const& batch, view<double, 2> states) {
  student<placement::post, Schedule, backend_type> s(of, seed{42});
  s.begin_phase(0);
  auto w = s.make_workspace(batch.num_tokens());
  distillation::vocabulary_head<backend_type> head(of.config().vocab_size, {});
  head.distill(s.context(), states, of.head()->view(), s.forward(batch, w), s.head(), batch.targets, {},
               w.dhidden);
  s.backward(batch, w);
}

using one = std::tuple<growth::joint<3, 3>>;
using ten = std::tuple<growth::joint<3, 3>, growth::joint<9, 1>, growth::joint<3, 3>::restarted<2>,
                       growth::joint<3, 3>::restarted<3>, growth::curriculum<3, 3>, growth::curriculum<9, 1>,
                       growth::curriculum<3, 3, growth::data_order::reset>, growth::freeze<3, 3>,
                       growth::freeze<3, 3>::strict, growth::freeze<9, 1>>;
using schedules = std::conditional_t<SCHEDULES == 1, one, ten>;

void train_all(teacher<backend_type>& of, model::token_batch<mem::host> const& batch, view<double, 2> states) {
  [&]<class... S>(std::tuple<S...>*) { (train<S>(of, batch, states), ...); }(static_cast<schedules*>(nullptr));
}
