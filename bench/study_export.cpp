// Writes what another program needs to run the study of examples/study.cpp (pre and post, joint and grow) on equal weights and
// equal batches: the teacher, both students as they are drawn, and every update's documents.
//   study_export --teacher FILE --text PATH.. --out FOLDER [--steps N]
#include <CLI/CLI.hpp>

#include <accrete/accrete.hpp>
#include <accrete/data/document_order.hpp>
#include <accrete/data/token_shard.hpp>
#include <accrete/io/safetensors_writer.hpp>
#include <accrete/model/save_pretrained.hpp>
#include <accrete/train/prepared_text.hpp>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "step_model.hpp"

namespace ac = accrete;
using ac::index_t;
using backend = ac::cpu::backend<float>;

namespace {

struct options {
  std::filesystem::path teacher, out;
  std::vector<std::filesystem::path> text;
  index_t validation_documents = 24;
  ac::recipe recipe{.steps = 40, .batch_tokens = 256};
};
constexpr index_t length = 128;  // of every document: batches without padding, in both programs

/// The text's windows of exactly `length` tokens as a shard for `study --text`, which is also what is returned.
ac::data::corpus write_text(options const& o, ac::data::tokenizer const& words) {
  ac::data::cutting const windows{ac::data::cutting::windows, length};
  auto const all = ac::data::open(o.text, words, {.cut = windows});
  ac::data::corpus whole;
  std::vector<std::int32_t> document(std::size_t{length});
  for (index_t d = 0; d < all.num_documents(); ++d)
    if (all.length(d) == length) {
      all.document(d).copy_to(document.data());
      whole.append(document, windows);
    }
  auto const folder = o.out / "text";
  std::filesystem::create_directories(folder);
  ac::data::write_token_shard(
      folder / "tokens-00000.safetensors",
      {.tokenizer = words.identity_text(), .vocabulary = words.vocab_size(), .max_length = length}, whole.tokens,
      whole.offsets, whole.text_starts());
  return ac::data::open(folder, words, {.cut = windows});
}

std::vector<std::int32_t> tokens_of(ac::data::corpus const& text, std::span<index_t const> documents) {
  std::vector<std::int32_t> all(documents.size() * std::size_t{length});
  for (std::size_t i = 0; i < documents.size(); ++i)
    text.document(documents[i]).copy_to(all.data() + i * std::size_t{length});
  return all;
}

/// `batches.safetensors`: `documents` [D, length] of a phase, `order` [updates, documents of one], which are rows of
/// `documents`, for the run that grows (the other stops after its first phase), and `validation` [V, length].
void write_batches(options const& o, ac::train::run_data<backend> const& data) {
  std::vector<index_t> place(std::size_t(data.training->num_documents()));  // from document to row
  for (std::size_t i = 0; i < data.shard.size(); ++i) place[std::size_t(data.shard[i])] = index_t(i);
  ac::data::document_iterator walk(*data.training, data.shard, o.recipe.seed);
  ac::data::ragged_batch batch;
  std::vector<std::int64_t> order;
  index_t const updates = 3 * o.recipe.steps;
  for (index_t u = 0; u < updates; ++u) {
    walk.next_batch(batch, o.recipe.batch_tokens);
    for (index_t d : batch.documents) order.push_back(place[std::size_t(d)]);
  }
  std::vector<index_t> held_out(std::size_t(data.validation->num_documents()));
  for (std::size_t i = 0; i < held_out.size(); ++i) held_out[i] = index_t(i);
  auto const documents = tokens_of(*data.training, data.shard);
  auto const validation = tokens_of(*data.validation, held_out);
  using ac::io::safetensors_dtype;
  ac::io::safetensors_writer out(o.out / "batches.safetensors");
  out.declare("order", safetensors_dtype::i64, {updates, index_t(order.size()) / updates});
  out.declare("documents", safetensors_dtype::i32, {index_t(data.shard.size()), length});
  out.declare("validation", safetensors_dtype::i32, {index_t(held_out.size()), length});
  out.append("order", std::as_bytes(std::span(order)));
  out.append("documents", std::as_bytes(std::span(documents)));
  out.append("validation", std::as_bytes(std::span(validation)));
  out.commit();
}

void write_all(options const& o) {
  auto teacher = ac::load_teacher<backend>(o.teacher, {}, length);
  step_model::export_teacher(*ac::io::open_weights(o.teacher), o.out);
  auto const text = write_text(o, teacher.tokenizer());
  ac::train::prepared_text<backend> const prepared(teacher, text, o.recipe, o.recipe.steps,
                                                   {.validation_documents = o.validation_documents});
  write_batches(o, prepared.for_updates(o.recipe.steps, o.recipe.seed));
  // All blocks of the joint student: one that is appended later is drawn the same.
  using joint = ac::growth::joint<3, 3>;
  ac::student<ac::placement::pre, joint, backend> pre(teacher, o.recipe.seed);
  ac::save_pretrained(pre, o.out / "pre");
  ac::student<ac::placement::post, joint, backend> post(teacher, o.recipe.seed);
  ac::save_pretrained(post, o.out / "post");
}

}  // namespace

int main(int argc, char** argv) {
  options o;
  CLI::App app{"Writes the study's teacher, students and batches for another program."};
  app.add_option("--teacher", o.teacher, "of the study")->required();
  app.add_option("--text", o.text, "of the study; documents of 128 tokens are taken")->required();
  app.add_option("--out", o.out, "a folder; its text/ is for study --text")->required();
  app.add_option("--steps", o.recipe.steps, "updates in a phase")->capture_default_str();
  app.add_option("--validation-documents", o.validation_documents, "held out")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    write_all(o);
  } catch (std::exception const& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
  return 0;
}
