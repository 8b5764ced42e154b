// One student, every knob. Its type is the line below; everything else is a flag. A run that ended early, for
// whatever reason, goes on when the same command is given again.
//   distill --teacher SmolLM2-135M-Instruct.Q4_1.gguf --text docs/ --steps 100
#include <accrete/accrete.hpp>
#include <accrete/data/save_tokenizer.hpp>
#include <accrete/io/folder_lock.hpp>
#include <accrete/io/leftovers.hpp>
#include <accrete/io/line_log.hpp>
#include <accrete/io/writable_folder.hpp>
#include <accrete/model/save_pretrained.hpp>
#include <accrete/train/profile_report.hpp>
#include <accrete/train/progress.hpp>
#include <accrete/train/run_log.hpp>
#include <accrete/train/stop_signal.hpp>
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "options.hpp"

namespace ac = accrete;
using backend = ac::cpu::backend<float>;
using student = ac::student<ac::placement::post, ac::growth::curriculum<3, 3>, backend>;

int main(int argc, char** argv) {
  std::string teacher_file;
  std::filesystem::path out = "runs/distill";
  std::filesystem::path cache;
  options::text text;
  ac::recipe recipe{.steps = 64, .batch_tokens = 256, .peak_learning_rate = 2e-4};
  ac::train::text_options text_options;
  ac::train::checkpoint_options keep;
  std::filesystem::path trace;
  int threads = 0;
  CLI::App app{"Distils one student: " + student::configuration_name() + "."};
  app.add_option("--teacher", teacher_file,
                 "a Hugging Face directory or a GGUF file (Llama, Qwen2 or Qwen3 kind)")
      ->required();
  text.declare(app);
  app.add_option("--out", out, "where log, checkpoints and the student go")->capture_default_str();
  app.add_option("--seed", recipe.seed.value, "of weights and order")->capture_default_str();
  app.add_option("--validation-documents", text_options.validation_documents, "held out")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--cache", cache,
                 "folder for the teacher's states; none: the teacher runs inside each update");
  app.add_option("--threads", threads, "0: all")->capture_default_str()->check(CLI::Range(0, 1024));
  app.add_option("--profile", trace,
                 "say where the time goes, and write a trace there that chrome://tracing or ui.perfetto.dev opens");
  options::declare(app, recipe);
  options::declare(app, keep);
  std::map<std::string, ac::train::resume> const ways{{"auto", ac::train::resume::automatic},
                                                      {"must", ac::train::resume::required},
                                                      {"fresh", ac::train::resume::fresh}};
  app.add_option(
         "--resume", keep.how,
         "auto: go on with what is in --out, or begin; must: go on; fresh: remove what is there and begin")
      ->transform(CLI::CheckedTransformer(ways).description("{auto,must,fresh}"))
      ->group("Checkpoints");
  app.add_option("--allow", keep.allow, "go on although these have changed, as peak_learning_rate,warmup")
      ->delimiter(',')
      ->group("Checkpoints");
  app.footer("Ctrl-C writes a checkpoint and leaves; a second one leaves at once. See docs/runs.md.");
  CLI11_PARSE(app, argc, argv);
  return options::guarded([&] {
    recipe.check();
    keep.check();
    ac::train::stop_signal stop;
    text_options.cache_folder = cache;
    text_options.on_teacher = options::teacher_progress();
    ac::io::require_writable_folder(out);
    ac::io::folder_lock const lock(out);
    ac::io::remove_leftovers(out);
    keep.folder = out / "checkpoints";
    std::optional<ac::profile> profile;
    auto context = threads > 0 ? backend(threads) : backend();
    if (!trace.empty()) context.profile_into(&profile.emplace());
    auto teacher = ac::load_teacher<backend>(teacher_file, context, text.length);
    auto const corpus = ac::data::open(text.paths, teacher.tokenizer(), text.how());

    student model(teacher, recipe.seed);
    ac::train::progress_line line(model.name(),
                                  ac::train::total_updates(ac::train::phases_of(model.schedule(), recipe)));
    ac::train::run_events events;
    events.on_step = [&](ac::train::step_record const& s) { line.show(s); };
    events.on_note = [&](std::string const& note) { line.note(model.name() + "  " + note); };
    events.on_evaluation = [&](ac::train::evaluation_record const& e) {
      line.note(
          fmt::format("{}  validation after step {}: ce {:.3f}  kd {:.3f}", model.name(), e.step, e.ce, e.kd));
    };
    events.stop_wanted = [] { return ac::train::stop_signal::stop_wanted(); };
    using start = ac::io::line_log::start;
    ac::io::line_log file(out / "log.jsonl",
                          keep.how == ac::train::resume::fresh ? start::fresh : start::append);
    ac::train::run_log const log(file, {{"student", model.name()}, {"seed", recipe.seed.value}});
    log.append({{"kind", "begin"}, {"recipe", ac::train::to_json(ac::train::facts_of(recipe))}});
    auto const result =
        ac::distill(model, teacher, corpus, recipe, text_options, log.attach(events), std::move(keep));
    if (profile) {
      fmt::print("{}", ac::train::profile_table(*profile));
      ac::train::write_trace(*profile, trace);
    }
    if (!result.finished) {
      line.note(fmt::format("stopped after step {}: the same command goes on from there", result.steps.size()));
      return options::stopped();
    }
    result.write(out);
    ac::data::save_tokenizer(teacher.tokenizer(), out / "student");
    ac::save_pretrained(model, out / "student");
    line.note(fmt::format("finished: {} updates are logged below {}; the student is at {}", result.steps.size(),
                          out.string(), (out / "student").string()));
    return 0;
  });
}
