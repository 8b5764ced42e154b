#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <system_error>
#include <type_traits>
#include <vector>

#include "accrete/core/bfloat16.hpp"
#include "accrete/core/error.hpp"
#include "accrete/core/format.hpp"
#include "accrete/io/atomic_file.hpp"
#include "accrete/io/hf_config_writer.hpp"
#include "accrete/io/message_text.hpp"
#include "accrete/io/safetensors_writer.hpp"
#include "accrete/model/grown_model.hpp"
#include "accrete/model/modeling_python.hpp"
#include "accrete/model/student.hpp"
#include "accrete/placement/pre.hpp"

namespace accrete::inline v0 {

struct save_options {
  io::safetensors_dtype dtype = io::safetensors_dtype::f32;  ///< f32 or bf16
  std::uint64_t shard_bytes = 5'000'000'000;  ///< above it, several files and an index, as `transformers` does
};

namespace model {

/// Which class of `transformers` computes what this stack does; "accrete" where none does and the model brings
/// its code along.
template <norm_placement P>
std::string architecture_of(layer::features const& has) {
  constexpr bool pre_norm = std::is_same_v<placement::layer_of<P>, placement::layer_of<placement::pre>> &&
                            std::is_same_v<std::remove_cvref_t<decltype(P::boundary)>,
                                           std::remove_cvref_t<decltype(placement::pre::boundary)>>;
  if (!pre_norm || has.head_norms.q != has.head_norms.k || has.head_norms.v) return "accrete";
  if (has.head_norms.q) return has.qkv_bias == has.output_bias ? "qwen3" : "accrete";
  if (has.qkv_bias == has.output_bias) return "llama";
  return has.qkv_bias && has.rotary.kind == io::rotary_kind::plain ? "qwen2" : "accrete";
}

namespace detail {

/// A tensor of the export: a name and numbers in the backend's memory, which `read(first, rows)` brings over.
struct saved_tensor {
  std::string name;
  index_t rows, columns;
  bool vector;
  std::function<std::vector<float>(index_t, index_t)> read;
  [[nodiscard]] index_t size() const { return rows * columns; }
  [[nodiscard]] std::vector<index_t> shape() const {
    if (vector) return {size()};
    return {rows, columns};
  }
};
template <backend B, class T, class Space>
saved_tensor tensor_to_save(B const& ctx, std::string name, view<T, 2, Space> numbers, bool vector) {
  auto const read = [&ctx, numbers](index_t first, index_t rows) {
    auto const wanted = numbers.slice(first, rows);
    tensor<std::remove_const_t<T>, 1> host({wanted.size()});
    download(ctx, wanted.flat(), host.view());
    std::vector<float> all(std::size_t(wanted.size()));
    std::transform(host.data(), host.data() + wanted.size(), all.begin(),
                   [](auto number) { return static_cast<float>(number); });
    return all;
  };
  return {std::move(name), numbers.rows(), numbers.columns(), vector, read};
}

/// Names inside `transformers`' pre-norm classes, whatever the placement calls its norms.
inline std::string pre_norm_name(std::string name, std::vector<std::string> const& own) {
  for (std::size_t g = 0; g < own.size(); ++g) {
    auto const at = name.find("." + own[g] + ".weight");
    if (at != std::string::npos) return name.substr(0, at) + "." + placement::pre::norm_names[g] + ".weight";
  }
  return name;
}

inline std::vector<std::byte> saved_bytes(std::vector<float> const& numbers, io::safetensors_dtype dtype) {
  auto const raw = [](auto const& all) {
    auto const bytes = std::as_bytes(std::span(all));
    return std::vector<std::byte>(bytes.begin(), bytes.end());
  };
  if (dtype != io::safetensors_dtype::bf16) return raw(numbers);
  std::vector<bfloat16> narrow(numbers.size());
  std::transform(numbers.begin(), numbers.end(), narrow.begin(), [](float number) { return bfloat16(number); });
  return raw(narrow);
}

/// One file, or several and their index. The index, or the one file, is the last to appear.
inline void write_weights(std::filesystem::path const& folder, std::vector<saved_tensor> const& all,
                          save_options const& o) {
  std::uint64_t const width = o.dtype == io::safetensors_dtype::bf16 ? 2 : 4;
  std::vector<std::vector<saved_tensor const*>> files(1);
  std::uint64_t in_file = 0;
  std::uint64_t total = 0;
  for (auto const& t : all) {
    std::uint64_t const bytes = std::uint64_t(t.size()) * width;
    if (in_file > 0 && in_file + bytes > o.shard_bytes) {
      files.emplace_back();
      in_file = 0;
    }
    files.back().push_back(&t);
    in_file += bytes;
    total += bytes;
  }
  std::error_code ignored;  // of an earlier export: readers take the one file before any index
  if (files.size() > 1) std::filesystem::remove(folder / "model.safetensors", ignored);
  nlohmann::ordered_json map = nlohmann::ordered_json::object();
  for (std::size_t f = 0; f < files.size(); ++f) {
    std::string const name = files.size() == 1
                                 ? "model.safetensors"
                                 : fmt::format("model-{:05}-of-{:05}.safetensors", f + 1, files.size());
    io::safetensors_writer out(folder / name);
    out.metadata("format", "pt");
    for (auto const* t : files[f]) out.declare(t->name, o.dtype, t->shape());
    for (auto const* t : files[f]) {
      index_t const at_once = std::max<index_t>(1, (index_t(1) << 22) / t->columns);  // bounded memory
      for (index_t first = 0; first < t->rows; first += at_once)
        out.append(t->name, saved_bytes(t->read(first, (std::min)(at_once, t->rows - first)), o.dtype));
      map[t->name] = name;
    }
    out.commit();
  }
  if (files.size() > 1)
    io::write_atomically(
        folder / "model.safetensors.index.json",
        nlohmann::ordered_json{{"metadata", {{"total_size", total}}}, {"weight_map", map}}.dump(2) + "\n");
}

}  // namespace detail

/// What an export has to know of a placement.
struct saved_wiring {
  std::string architecture;             ///< of `transformers`, or "accrete"
  std::vector<std::string> norm_names;  ///< of a layer that a class of `transformers` computes, in order
  std::string placement, layer_equation, wiring, code;
};
template <norm_placement P>
saved_wiring wiring_to_save(layer::features const& has, int num_layers, int final_depth) {
  saved_wiring w;
  w.architecture = architecture_of<P>(has);
  if (w.architecture != "accrete") {
    w.norm_names = placement::norm_names_at<P>({0, final_depth});
  } else {
    w.placement = placement::name_of<P>();
    w.layer_equation = wiring::equation_text(placement::layer_of<P>{});
    w.wiring = wiring_fingerprint<P>(num_layers, final_depth);
    w.code = modeling_python<P>(num_layers, final_depth);
  }
  return w;
}

/// The export itself, compiled once for a backend.
template <backend B>
void save(grown_model<B>& m, saved_wiring const& w, std::filesystem::path const& folder,
          save_options const& o) {
  if (o.dtype != io::safetensors_dtype::f32 && o.dtype != io::safetensors_dtype::bf16)
    throw config_error("save_pretrained", io::name_of(o.dtype), "F32 or BF16");
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed)
    throw io_error("save_pretrained " + io::path_text(folder), "'" + failed.message() + "'",
                   "a folder to write to");
  std::filesystem::remove(folder / "config.json", failed);  // of an earlier export that this one replaces
  std::filesystem::remove(folder / "model.safetensors.index.json", failed);

  auto const& has = m.stack().shape().features;
  io::model_config c = m.config();
  c.architecture = w.architecture;
  c.num_hidden_layers = m.active_layers();
  c.tie_word_embeddings = false;
  c.qk_norm = has.head_norms.q;
  c.qkv_bias = has.qkv_bias;
  c.output_bias = has.output_bias;
  c.rotary = has.rotary;
  bool const own_code = c.architecture == "accrete";

  std::vector<detail::saved_tensor> tensors;
  std::vector<std::string> norms;
  tensors.push_back(detail::tensor_to_save(m.context(), "model.embed_tokens.weight", m.embedding(), false));
  m.parameters([&](auto& p) {
    for (auto const& part : p.parts) {
      auto const name = own_code ? part.name : detail::pre_norm_name(part.name, w.norm_names);
      auto const rows = p.value.view().slice(part.first, part.rows);
      tensors.push_back(detail::tensor_to_save(m.context(), name, is_vector(p.role) ? as_row(rows) : rows,
                                               is_vector(p.role)));
      bool const of_heads = name.find(".self_attn.") != std::string::npos;
      if (p.role == parameter_role::norm_gain && !of_heads) norms.push_back(name);
    }
  });
  detail::write_weights(folder, tensors, o);

  std::string const dtype = o.dtype == io::safetensors_dtype::bf16 ? "bfloat16" : "float32";
  auto config = io::hf_config(c, dtype);
  if (own_code) {
    io::write_atomically(folder / "modeling_accrete.py", w.code);
    config["auto_map"] = {{"AutoConfig", "modeling_accrete.AccreteConfig"},
                          {"AutoModelForCausalLM", "modeling_accrete.AccreteForCausalLM"}};
    auto head_norms = nlohmann::ordered_json::array();
    if (has.head_norms.q) head_norms.push_back("q");
    if (has.head_norms.k) head_norms.push_back("k");
    if (has.head_norms.v) head_norms.push_back("v");
    config["head_norms"] = head_norms;
    config["qkv_bias"] = has.qkv_bias;
    config["output_bias"] = has.output_bias;
    config["rotary_inv_freq"] = io::rotary_frequencies(c.head_dim, c.rope_theta, c.rotary);
    config["placement"] = w.placement;
    config["layer_equation"] = w.layer_equation;
    config["wiring"] = w.wiring;
    config["final_depth"] = m.stack().final_depth();
    config["norms"] = norms;
  }
  nlohmann::ordered_json generation{{"_from_model_config", true}};
  for (char const* key : {"bos_token_id", "eos_token_id"})
    if (config.contains(key)) generation[key] = config[key];
  io::write_atomically(folder / "generation_config.json", generation.dump(2) + "\n");
  io::write_atomically(folder / "config.json", config.dump(2) + "\n");
}

}  // namespace model

/// Writes a student as a directory that `transformers` opens: config.json, generation_config.json, safetensors
/// and, where none of its classes computes this placement, modeling_accrete.py (trust_remote_code). Layers are
/// those active now. Each file appears whole, config.json last, so that an export that was cut short is not
/// taken for a model. The tokenizer's files are `data::save_tokenizer`'s. Throws io_error.
template <norm_placement P, backend B>
void save_pretrained(model::grown_model<B>& m, std::filesystem::path const& folder,
                     save_options const& o = {}) {
  auto const& s = m.stack();
  model::save(m, model::wiring_to_save<P>(s.shape().features, s.num_layers(), s.final_depth()), folder, o);
}
template <norm_placement P, growth_schedule S, backend B, class Layer>
void save_pretrained(student<P, S, B, Layer>& m, std::filesystem::path const& folder,
                     save_options const& o = {}) {
  save_pretrained<P>(static_cast<model::grown_model<B>&>(m), folder, o);
}

}  // namespace accrete::inline v0
