// What the CPU backend is held against other libraries with; one line of JSON for each measurement, which
// bench/compare.py lays beside the peer's.
//
//   step_bench step       one training step, pre-norm: teacher and student forward, KD and CE, backward, clip,
//   AdamW. The
//                         default size is the one speed is stated for: 2,048 tokens as 8 x 256, width 768, 9
//                         student and 12 teacher layers, 12/4 heads of 64, MLP 2048. Rates count useful
//                         operations only; `of_gemm` is the step's over the provider's own product, timed right
//                         before and after.
//   step_bench attention  causal attention alone, forward and backward: one long document, and many ragged ones
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "accrete/cpu/backend.hpp"
#include "accrete/data/document_order.hpp"
#include "accrete/distill/teacher_cache.hpp"
#include "accrete/distill/teacher_states.hpp"
#include "accrete/growth/joint.hpp"
#include "accrete/model/save_pretrained.hpp"
#include "accrete/model/student.hpp"
#include "accrete/placement/pre.hpp"
#include "accrete/train/distillation_step.hpp"
#include "measure.hpp"
#include "step_model.hpp"

namespace ac = accrete;
using ac::index_t;
using json = nlohmann::ordered_json;

namespace {

struct options {
  std::string dtype = "f32", provider = "eigen", documents = "long", recompute = "none";
  int threads = 0, repetitions = 5, layers = 9;
  step_model::sizes sizes;
  std::filesystem::path teacher_cache, export_to;
  bool profile = false;
};

/// Bytes of weights, their working copies, gradients and moments.
template <class Model>
std::size_t state_bytes(Model& m) {
  std::size_t bytes = 0;
  m.parameters(
      [&](auto& p) { bytes += p.bytes() + p.gradient.bytes() + p.moment1.bytes() + p.moment2.bytes(); });
  return bytes;
}

template <class Backend>
json measured(char const* what, options const& o, Backend const& ctx) {
  return {{"what", what},
          {"by", "accrete"},
          {"provider", Backend::gemm::name()},
          {"dtype", o.dtype},
          {"threads", ctx.threads()}};
}

/// Where the time of some steps went, with a line for each size of a product.
void print_by_size(ac::profile const& p, int steps) {
  std::map<std::pair<std::string, double>, std::pair<int, double>> lines;  // calls and seconds
  for (auto const& e : p.events()) {
    if (e.whole) continue;
    auto& [calls, seconds] = lines[{e.name, e.operations}];
    ++calls;
    seconds += e.end - e.begin;
  }
  for (auto const& [what, line] : lines)
    std::fprintf(stderr, "%-24s %8.2f GFLOP %6d calls %9.2f ms %8.1f GFLOP/s\n", what.first.c_str(),
                 what.second * 1e-9, line.first / steps, line.second / steps * 1e3,
                 what.second * line.first / line.second * 1e-9);
}

template <class Schedule, class Backend>
json time_step(options const& o, Backend ctx) {
  std::optional<ac::profile> profile;
  if (o.profile) ctx.profile_into(&profile.emplace());
  auto const at_start = measure::process_bytes("RssAnon");
  step_model::random_teacher const source(o.sizes);
  ac::teacher<Backend> teacher(ctx, source, std::nullopt, o.sizes.length);
  ac::student<ac::placement::pre, Schedule, Backend> student(teacher, ac::seed{42});
  auto const text = step_model::random_text(o.sizes);
  auto const batch = step_model::whole_batch(text);
  if (!o.export_to.empty()) {
    step_model::export_teacher(source, o.export_to);
    step_model::export_tokens(source.config, text, o.export_to);
    ac::save_pretrained(student, o.export_to / "student");
  }
  using states_type = ac::distillation::teacher_states<Backend>;
  index_t const tokens = o.sizes.tokens();
  auto states = o.teacher_cache.empty()
                    ? states_type(teacher, tokens)
                    : states_type(ac::distillation::teacher_cache<Backend>::open_or_build(
                                      o.teacher_cache, teacher, text, ac::data::whole_shard(text, {1}), tokens),
                                  tokens);
  ac::recipe const recipe{
      .batch_tokens = tokens, .max_gradient_norm = 1.0, .recompute = *ac::recomputation_of(o.recompute)};
  ac::train::distillation_step<Backend> step(student, teacher, recipe);
  step.resize();

  index_t number = 0;
  ac::distillation::loss_sums losses;
  ac::train::update_report update;
  auto const work = [&] {
    losses = step.compute_gradients(batch, states);
    update = step.update(losses, recipe.peak_learning_rate, ++number);
  };
  work();  // the first one makes what the others find made; its losses are those of the weights as exported
  json r = measured("step", o, ctx);
  r.update({{"placement", "pre"},
            {"vocabulary", o.sizes.vocabulary},
            {"tokens", tokens},
            {"teacher", states.is_live() ? "live" : "cached"},
            {"layers", o.layers},
            {"recompute", o.recompute},
            {"kd", losses.mean_kd()},
            {"ce", losses.mean_ce()},
            {"gradient_norm", update.gradient_norm}});
  double const gemm_before = measure::gemm_rate(ctx);
  measure::forget_peak();
  std::vector<double> seconds(static_cast<std::size_t>(o.repetitions));
  if (profile) profile->clear();
  for (double& s : seconds) s = measure::seconds_of(work);
  if (profile) print_by_size(*profile, o.repetitions);
  auto const peak = measure::peak_bytes();
  double const gemm_after = measure::gemm_rate(ctx);
  double const operations = step.operations(batch, states.is_live());
  double const rate = operations / measure::median(seconds);
  double const gemm = (gemm_before + gemm_after) / 2;
  auto const state = state_bytes(student) + state_bytes(teacher.stack()) + teacher.embedding()->bytes() +
                     (teacher.head() == teacher.embedding() ? 0 : teacher.head()->bytes());
  auto const activations = step.memory().bytes();
  r.update({{"seconds", seconds},
            {"tokens_per_second", double(tokens) / measure::median(seconds)},
            {"operations", operations},
            {"flops", rate},
            {"gemm_before", gemm_before},
            {"gemm_after", gemm_after},
            {"of_gemm", rate / gemm},
            {"activation_bytes", activations},
            {"logits_bytes", step.bytes() - activations},
            {"teacher_bytes", states.bytes()},
            {"state_bytes", state},
            {"peak_bytes", peak},
            {"above_state_bytes", peak - at_start - std::int64_t(state)}});
  return r;
}

/// Ends of documents: one of 8,192 tokens, or 64 of evenly spread lengths from 16 to 2,048, shuffled.
std::vector<index_t> offsets_of(std::string const& documents) {
  std::vector<index_t> offsets{0};
  if (documents == "long") return {0, 8192};
  for (index_t d = 0; d < 64; ++d) offsets.push_back(offsets.back() + 16 + (d * 37 % 64) * (2048 - 16) / 63);
  return offsets;
}

template <class Backend>
json time_attention(options const& o, Backend const& ctx) {
  using scalar = typename Backend::scalar;
  auto const offsets = offsets_of(o.documents);
  index_t const tokens = offsets.back();
  ac::attention_shape const shape{12, 4, 64, 0.125};
  auto const drawn = [&](index_t columns, std::uint64_t seed) {
    ac::tensor<scalar, 2> m({tokens, columns});
    ac::random_stream const stream({seed}, "attention");
    for (index_t i = 0; i < m.size(); ++i)
      m.data()[i] = scalar(float(2 * stream.uniform(std::uint64_t(i)) - 1));
    return m;
  };
  auto const q = drawn(768, 1), k = drawn(256, 2), v = drawn(256, 3), dout = drawn(768, 4);
  ac::tensor<scalar, 2> out({tokens, 768}), dq({tokens, 768}), dk({tokens, 256}), dv({tokens, 256});
  ac::tensor<typename Backend::real, 2> log_sum_exp({tokens, 12});
  ac::view<index_t const, 1> const documents(offsets.data(), {index_t(offsets.size())});
  auto const state = measure::process_bytes("RssAnon");
  auto const work = [&] {
    attention(ctx, q, k, v, documents, shape, out, log_sum_exp);
    attention_backward(ctx, q, k, v, documents, shape, out, log_sum_exp, dout, dq, dk, dv);
  };
  measure::forget_peak();
  work();
  std::vector<double> seconds(static_cast<std::size_t>(o.repetitions));
  for (double& s : seconds) s = measure::seconds_of(work);
  double pairs = 0;  // of a query and a key it sees
  for (std::size_t d = 0; d + 1 < offsets.size(); ++d) {
    double const length = double(offsets[d + 1] - offsets[d]);
    pairs += length * (length + 1) / 2;
  }
  double const operations = 2.0 * 7 * pairs * 768;  // two products forward, five backward
  json r = measured("attention", o, ctx);
  r.update({{"documents", o.documents},
            {"tokens", tokens},
            {"seconds", seconds},
            {"operations", operations},
            {"flops", operations / measure::median(seconds)},
            {"above_state_bytes", measure::peak_bytes() - state}});
  return r;
}

template <class Backend>
json run(std::string const& what, options const& o) {
  auto const ctx = o.threads > 0 ? Backend(o.threads) : Backend();
  if (what == "attention") return time_attention(o, ctx);
  switch (o.layers) {
    case 3:
      return time_step<ac::growth::joint<1, 3>>(o, ctx);
    case 24:
      return time_step<ac::growth::joint<8, 3>>(o, ctx);
    default:
      return time_step<ac::growth::joint<3, 3>>(o, ctx);
  }
}

using program = std::function<json(std::string const&, options const&)>;
/// By dtype and provider.
std::map<std::pair<std::string, std::string>, program> const programs {
  {{"f32", "eigen"}, run<ac::cpu::backend<float, ac::cpu::eigen_gemm>>},
      {{"bf16", "eigen"}, run<ac::cpu::backend<ac::bfloat16, ac::cpu::eigen_gemm>>},
#if defined(ACCRETE_WITH_ONEDNN)
      {{"f32", "onednn"}, run<ac::cpu::backend<float, ac::cpu::onednn_gemm>>},
      {{"bf16", "onednn"}, run<ac::cpu::backend<ac::bfloat16, ac::cpu::onednn_gemm>>},
#endif
};

}  // namespace

int main(int argc, char** argv) {
  if (!measure::may_time("step_bench")) return 2;
  options o;
  CLI::App app{"Times a training step or attention; prints one line of JSON."};
  app.require_subcommand(1);
  auto const shared = [&](char const* name, char const* help) {
    auto* const sub = app.add_subcommand(name, help);
    sub->add_option("--dtype", o.dtype, "of matrices and what meets them")
        ->capture_default_str()
        ->check(CLI::IsMember({"f32", "bf16"}));
    sub->add_option("--provider", o.provider, "of matrix products: eigen, or onednn where it was built in")
        ->capture_default_str()
        ->check(CLI::IsMember({"eigen", "onednn"}));
    sub->add_option("--threads", o.threads, "0: all")->capture_default_str()->check(CLI::Range(0, 1024));
    sub->add_option("--repetitions", o.repetitions, "timed, after one that is not")
        ->capture_default_str()
        ->check(CLI::Range(1, 1000));
    return sub;
  };
  auto* const step = shared("step", "one training step, pre-norm");
  auto const size = [&](char const* name, index_t& value, index_t least, char const* help) {
    step->add_option(name, value, help)->capture_default_str()->check(CLI::Range(least, index_t(1) << 24));
  };
  size("--vocabulary", o.sizes.vocabulary, 2, "rows of embedding and heads");
  size("--width", o.sizes.width, 64, "of the residual stream, a multiple of 64");
  size("--teacher-layers", o.sizes.teacher_layers, 1, "of the teacher");
  step->add_option("--layers", o.layers, "of the student")
      ->capture_default_str()
      ->check(CLI::IsMember({3, 9, 24}));
  size("--documents", o.sizes.documents, 1, "in the batch");
  size("--length", o.sizes.length, 2, "tokens of each");
  step->add_option("--teacher-cache", o.teacher_cache,
                   "folder of the teacher's states; none: it runs in the step");
  step->add_option("--recompute", o.recompute, "made again in the backward rather than kept")
      ->capture_default_str()
      ->check(CLI::IsMember({"none", "mlp", "layer", "block"}));
  step->add_flag("--profile", o.profile, "print where the time went, by operation and size, to standard error");
  step->add_option("--export", o.export_to,
                   "write teacher, student and tokens to this folder before the first step");
  auto* const attention = shared("attention", "causal attention alone, 12/4 heads of 64, forward and backward");
  attention->add_option("--documents", o.documents, "long: 1 x 8192; ragged: 64 of 16 to 2048")
      ->capture_default_str()
      ->check(CLI::IsMember({"long", "ragged"}));
  CLI11_PARSE(app, argc, argv);
  try {
    auto const found = programs.find({o.dtype, o.provider});
    if (found == programs.end())
      throw ac::config_error("step_bench --provider", o.provider, "one that this build has");
    std::printf("%s\n", found->second(app.get_subcommands().front()->get_name(), o).dump().c_str());
  } catch (std::exception const& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
  return 0;
}
