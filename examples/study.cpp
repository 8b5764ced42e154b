// The study: students of many types, distilled from one teacher on one text, and the tables that compare them.
#include "study/run.hpp"

#include <CLI/CLI.hpp>
#include <string>
#include <utility>
#include <vector>

using f32 = ac::cpu::backend<float>;
using bf16 = ac::cpu::backend<ac::bfloat16>;
// Each is compiled by a file of its own in study/, beside the other.
extern template int run_study<f32>(settings);
extern template int run_study<bf16>(settings);

template <class... T>
std::vector<std::string> names_of(ac::types<T...>) {
  auto name = []<class X>() {
    if constexpr (ac::norm_placement<X>)
      return ac::placement::name_of<X>();
    else
      return X::name();
  };
  return {name.template operator()<T>()...};
}

void declare(CLI::App& app, settings& o) {
  app.add_option("--teacher", o.teacher, "a Hugging Face directory or a GGUF file (Llama, Qwen2 or Qwen3 kind)")
      ->required();
  o.text.declare(app);
  app.add_option("--out", o.out, "where log.jsonl, table.csv, report.md and finished cells go")
      ->capture_default_str();
  app.add_flag("--quick", o.quick, "a smaller run, of a minute");
  app.add_option("--seeds", o.seeds, "the seeds themselves, as 1,2,3; tables get 95% intervals from two on")
      ->capture_default_str()
      ->delimiter(',');
  app.add_option("--placements", o.placements,
                 "rows of the tables; differences are from the first in the list above")
      ->capture_default_str()
      ->delimiter(',')
      ->check(CLI::IsMember(names_of(placements{})));
  app.add_option("--schedules", o.schedules, "columns of the tables")
      ->capture_default_str()
      ->delimiter(',')
      ->check(CLI::IsMember(names_of(schedules{})));
  app.add_flag("--controls", o.controls, "also joint x2 and joint x3, the budget controls on fresh text");
  app.add_flag("--save-students", o.save_students,
               "keep each student as a directory that transformers opens, below --out/students");
  app.add_option("--validation-documents", o.validation_documents, "held out, the same for all cells")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--dtype", o.dtype,
                 "what matrices are multiplied in: auto is bf16 where the processor and the library do that fast")
      ->capture_default_str()
      ->check(CLI::IsMember({"auto", "f32", "bf16"}));
  app.add_option("--threads", o.threads, "0: all")->capture_default_str()->check(CLI::Range(0, 1024));
  app.add_option("--cache", o.cache, "folder for the teacher's states [$ACCRETE_CACHE/teacher-states]");
  app.add_flag("--no-cache", o.no_cache, "run the teacher inside each update instead");
  options::declare(app, o.recipe);
  options::declare(app, o.checkpoints);
  app.footer(
      "Students have 3 blocks of 3 layers at the teacher's width: K and L in examples/study.cpp are compile "
      "time.\n"
      "A second run with the same settings skips finished cells and goes on inside of the one that was in "
      "progress.\nCtrl-C writes a checkpoint and leaves; a second one leaves at once. See docs/runs.md.");
}

/// A run of a few minutes; what was asked for by name stays.
void make_quick(CLI::App const& app, settings& o) {
  if (app.count("--steps") == 0) o.recipe.steps = 3;
  if (app.count("--batch-tokens") == 0) o.recipe.batch_tokens = 256;
  if (app.count("--validation-documents") == 0) o.validation_documents = 4;
}

int main(int argc, char** argv) {
  settings o;
  CLI::App app{"Distils students whose normalization placement and growth schedule differ, and compares them."};
  declare(app, o);
  CLI11_PARSE(app, argc, argv);
  if (o.quick) make_quick(app, o);
  bool const narrow = o.dtype == "bf16" || (o.dtype == "auto" && bf16::multiplies_fast());
  return options::guarded([&] { return narrow ? run_study<bf16>(std::move(o)) : run_study<f32>(std::move(o)); });
}
