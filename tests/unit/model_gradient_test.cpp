#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "accrete/model/student.hpp"
#include "accrete/reference/backend.hpp"
#include "support/catch.hpp"
#include "support/step_by_hand.hpp"

using namespace accrete;

namespace {

using backend_type = reference::backend<double>;
using without_qk_norm = layer::decoder<layer::grouped_query<layer::qk_norm::none>>;
using with_qk_norm = layer::decoder<layer::grouped_query<layer::qk_norm::per_head>>;
using with_biases =
    layer::decoder<layer::grouped_query<layer::qk_norm::none, layer::rotary::llama3, layer::bias::qkvo>>;

/// Every named weight of a student against central differences of its whole objective.
template <class Placement, class Layer>
void check_gradients(test::tiny_shape const& shape, double temperature) {
  auto teacher = test::tiny_teacher<backend_type>(shape);
  student<Placement, test::joint_for<Placement>, backend_type, Layer> of(teacher, seed{42});
  test::enlarge_weights(of);
  auto const batch = test::random_batch({3, 1, 5, 2});
  test::step_by_hand d(teacher, of, batch);
  d.weights.temperature = temperature;
  auto const reports = test::gradient_reports(of, d);
  std::size_t parts = 0;
  of.parameters([&](auto& p) { parts += p.parts.size(); });
  REQUIRE(reports.size() == parts);
  for (auto const& r : reports) {
    CAPTURE(placement::name_of<Placement>(), Layer::name, r.name, r.size);
    CHECK(r.size > 1e-3);
    CHECK(r.error < 1e-6);
  }
}

/// Words that no placement of the library uses: unit norms, constants, a stream the head never reads.
struct half {
  static constexpr char const* name = "0.5";
  static double at(wiring::site) { return 0.5; }
};
struct by_unit {
  static constexpr char const* name = "by_unit";
  static constexpr auto wiring =
      wiring::x + wiring::constant<half>{} * wiring::unit(wiring::f(wiring::unit(wiring::x)));
  static constexpr auto boundary = placement::boundary::both;
};
struct unread_stream {
  static constexpr char const* name = "unread_stream";
  static constexpr auto o = wiring::f(wiring::norm(wiring::x));
  static constexpr auto wiring = wiring::streams(wiring::x + o, wiring::norm_<1>(wiring::y + o));
  static constexpr auto boundary = placement::make_ends(wiring::norm(wiring::x), wiring::norm(wiring::x));
  static constexpr std::array norm_names{"norm_of_attn", "norm_of_mlp", "unread_after_attn",
                                         "unread_after_mlp"};
};
struct two_starts {
  static constexpr char const* name = "two_starts";
  static constexpr auto o = wiring::f(wiring::norm(wiring::x + wiring::y));
  static constexpr auto wiring = wiring::streams(wiring::x + o, wiring::y + wiring::constant<half>{} * o);
  static constexpr auto boundary =
      placement::make_ends(wiring::streams(wiring::norm(wiring::x), wiring::norm_<1>(wiring::x)),
                           wiring::norm(wiring::x) + wiring::norm_<1>(wiring::y));
};

}  // namespace

TEMPLATE_LIST_TEST_CASE("student gradients agree with central differences of the whole objective",
                        "[model][gradient]", test::placements) {
  SECTION("without head norms") {
    check_gradients<TestType, layer::like_teacher>({}, 1.0);
    check_gradients<TestType, without_qk_norm>({.heads = 4, .kv_heads = 2, .qk_norm = true}, 2.0);
  }
  SECTION("with QK norm") {
    check_gradients<TestType, layer::like_teacher>({.qk_norm = true}, 2.0);
    check_gradients<TestType, with_qk_norm>({.heads = 4, .kv_heads = 2, .tied = false}, 1.0);
  }
  SECTION("with biases") {
    check_gradients<TestType, layer::like_teacher>({.qkv_bias = true, .rotary = test::tiny_llama3}, 1.0);
    check_gradients<TestType, with_biases>({.qk_norm = true}, 2.0);
  }
}

TEST_CASE("student gradients agree with central differences under equations of a user's own",
          "[model][gradient]") {
  check_gradients<by_unit, layer::like_teacher>({}, 1.0);
  check_gradients<two_starts, layer::like_teacher>({}, 2.0);
}

TEST_CASE("a stream that the head does not read gets no gradient, whatever memory held", "[model][gradient]") {
  auto teacher = test::tiny_teacher<backend_type>();
  student<unread_stream, growth::joint<2, 1>, backend_type> of(teacher, seed{42});
  test::enlarge_weights(of);
  auto const batch = test::random_batch({3, 1, 5, 2});
  test::step_by_hand d(teacher, of, batch);
  test::poison(d.workspace);
  for (auto const& r : test::gradient_reports(of, d)) {
    CAPTURE(r.name);
    bool const of_unread = r.name.find("unread_") != std::string::npos;
    CHECK((of_unread ? r.size == 0 : r.size > 1e-3));
    CHECK(r.error < 1e-6);
  }
}
