// A program that goes through most of what the compiled part holds, and prints each result to the last bit. It
// is built on the headers alone and with the compiled part, and must print the same. usage: run TEACHER FOLDER
#include <accrete/accrete.hpp>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <string>

namespace ac = accrete;

template <class B>
void run(std::filesystem::path const& model, std::filesystem::path const& folder) {
  auto teacher = ac::load_teacher<B>(model, B(2));
  auto const text = ac::data::open_ids(folder / "ids.txt", teacher.config().vocab_size);
  std::printf("%s, teacher %s\n", B::name(), teacher.identity().c_str());
  std::printf("cross-entropy %a\n", ac::train::cross_entropy_of(teacher, text, 64).mean_ce());
  for (auto id : ac::model::generate(teacher, {1, 2, 3}, 4, {.temperature = 1})) std::printf("%d ", int(id));
  std::printf("\n");

  ac::recipe const recipe{.steps = 4, .batch_tokens = 32, .peak_learning_rate = 1e-3};
  ac::train::text_options options;
  options.validation_documents = 4;
  options.cache_folder = folder / "cache";
  ac::for_each_configuration<ac::types<ac::placement::pre, ac::placement::peri>,
                             ac::types<ac::growth::curriculum<2, 1>>>([&]<class Placement, class Schedule>() {
    ac::student<Placement, Schedule, B> student(teacher, ac::seed{42});
    ac::train::checkpoint_options keep;
    keep.folder = folder / (student.name() + std::to_string(sizeof(typename B::scalar)));
    auto const result = ac::distill(student, teacher, text, recipe, options, {}, keep);
    for (auto const& r : result.steps)
      std::printf("%s: step %td loss %a gradient %a\n", student.name().c_str(), r.step, r.loss,
                  r.gradient_norm);
    for (auto const& r : result.evaluations) std::printf("validation %a %a\n", r.kd, r.ce);
    result.write(folder);

    ac::student<Placement, Schedule, B> again(teacher, ac::seed{7});
    auto const state = ac::train::load_student(again, teacher, keep.folder / "best.safetensors");
    std::printf("loaded at step %td\n", state.step());
  });
}

int main(int argc, char** argv) try {
  if (argc != 3) return 2;
  std::filesystem::path const folder = argv[2];
  std::ofstream ids(folder / "ids.txt");
  ac::random_stream const stream(ac::seed{3}, "ids");
  for (unsigned d = 0, i = 0; d < 40; ++d, ids << '\n')
    for (unsigned n = 4 + d % 9; n > 0; --n) ids << stream.below(i++, 50) << ' ';
  ids.close();
  run<ac::cpu::backend<float>>(argv[1], folder);
  run<ac::cpu::backend<ac::bfloat16>>(argv[1], folder);
  try {  // what is refused is told in the same words
    (void)ac::load_teacher<ac::cpu::backend<float>>(folder / "none.gguf");
  } catch (ac::io_error const& e) {
    std::puts(std::string(e.what()).substr(0, 15).c_str());  // the folder is another one
  }
} catch (std::exception const& e) {
  std::printf("%s\n", e.what());
  return 1;
}
