// A placement of one's own is one equation. Forward, backward, what is kept and what is fused follow from it.
#include <accrete/accrete.hpp>
#include <cstdio>
#include <exception>

namespace ac = accrete;

struct scaled_pre {  // pre-norm whose branch output is halved
  struct half {
    static constexpr char const* name = "1/2";
    static constexpr double at(ac::wiring::site) { return 0.5; }
  };
  static constexpr char const* name = "scaled_pre";
  static constexpr auto wiring =
      ac::wiring::x + ac::wiring::constant<half>{} * ac::wiring::f(ac::wiring::norm(ac::wiring::x));
  static constexpr auto boundary = ac::placement::boundary::final_norm;
};

int main(int argc, char** argv) try {
  using backend = ac::cpu::backend<float>;
  std::printf("%s\n", ac::wiring::equation_text(ac::placement::layer_of<scaled_pre>{}).c_str());
  if (argc < 3) return std::puts("usage: custom_placement MODEL.gguf TEXT"), 2;

  auto teacher = ac::load_teacher<backend>(argv[1]);
  auto corpus = ac::data::open(argv[2], teacher.tokenizer(), {{ac::data::cutting::windows, 128}});
  ac::recipe recipe{.steps = 5, .batch_tokens = 256};
  ac::for_each_configuration<ac::types<ac::placement::pre, scaled_pre>,
                             ac::types<ac::growth::curriculum<3, 1>>>([&]<class Placement, class Schedule>() {
    ac::student<Placement, Schedule, backend> student(teacher, ac::seed{42});
    ac::distill(student, teacher, corpus, recipe).write("runs/");
  });
} catch (std::exception const& e) {
  return std::fprintf(stderr, "%s\n", e.what()), 1;
}
