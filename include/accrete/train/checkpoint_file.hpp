#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "accrete/core/error.hpp"
#include "accrete/io/content_hash.hpp"
#include "accrete/io/json.hpp"
#include "accrete/io/message_text.hpp"
#include "accrete/io/safetensors.hpp"
#include "accrete/io/safetensors_writer.hpp"
#include "accrete/model/parameter.hpp"
#include "accrete/train/run_facts.hpp"
#include "accrete/train/run_state.hpp"

namespace accrete::inline v0::train {

/// What training knows of a model's weights, in its own order; the frozen embedding is the teacher's and not
/// among them.
template <backend B>
using parameter_list = std::vector<model::parameter<B>*>;
template <class Model>
parameter_list<typename Model::backend_type> parameters_of(Model& m) {
  parameter_list<typename Model::backend_type> all;
  m.parameters([&](auto& p) { all.push_back(&p); });
  return all;
}

namespace detail {

inline constexpr char const* checkpoint_format = "accrete checkpoint 1";
inline constexpr char const* moment_suffixes[] = {".exp_avg", ".exp_avg_sq"};

template <class T>
constexpr io::safetensors_dtype dtype_of() {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, double>,
                "[accrete] checkpoint: the backend's numbers must be 'float' or 'double'");
  return std::is_same_v<T, float> ? io::safetensors_dtype::f32 : io::safetensors_dtype::f64;
}

/// A named part of a parameter's value or moment, as a file has it: vectors are [n], matrices [rows, columns].
template <class T>
io::safetensors_tensor tensor_of(std::string name, model::parameter_role role,
                                 model::parameter_part const& part, view<T, 2> whole) {
  auto const rows = whole.slice(part.first, part.rows);
  std::vector<index_t> shape{rows.rows(), rows.columns()};
  if (model::is_vector(role)) shape = {rows.size()};
  return {std::move(name), dtype_of<std::remove_const_t<T>>(), std::move(shape),
          std::as_bytes(std::span(rows.data, std::size_t(rows.size())))};
}

/// Everything of a parameter that is written: its values, and its moments where it trains.
template <backend B>
void append_tensors(std::vector<io::safetensors_tensor>& all, model::parameter<B> const& p) {
  static_assert(std::is_same_v<typename B::space, mem::host>,
                "[accrete] checkpoint: the student must be on a backend of host memory");
  for (auto const& part : p.parts) {
    all.push_back(tensor_of(part.name, p.role, part, p.value.view()));
    if (!p.trainable()) continue;
    all.push_back(tensor_of(part.name + moment_suffixes[0], p.role, part, p.moment1.view()));
    all.push_back(tensor_of(part.name + moment_suffixes[1], p.role, part, p.moment2.view()));
  }
}

template <std::size_t N>
std::string joined(std::array<char const*, N> const& names) {
  std::string text;
  for (char const* name : names) text += (text.empty() ? "" : " ") + std::string(name);
  return text;
}

/// One hash over everything a checkpoint says: its metadata but the hash itself, and its tensors, by name.
template <class Metadata>
std::string checksum(Metadata const& metadata, std::vector<io::safetensors_tensor> const& by_name) {
  io::content_hash hash;
  for (auto const& [key, value] : metadata)
    if (key != "checksum") hash.update(key.size()).update(key).update(value.size()).update(value);
  for (auto const& t : by_name) {
    hash.update(t.name.size()).update(t.name).update(std::uint64_t(t.dtype)).update(t.shape.size());
    for (index_t n : t.shape) hash.update(std::uint64_t(n));
    hash.update(t.bytes);
  }
  return hash.hex();
}

}  // namespace detail

/// Writes where a run stands as one safetensors file, whole or not at all: weights under Hugging Face's names,
/// their moments as NAME.exp_avg and NAME.exp_avg_sq, the records as rows of doubles, and in the metadata, as
/// JSON, the run's facts, its place in plan and text, and how often each parameter was updated. Needs no memory
/// to speak of. Throws io_error; then what was at `path` stays.
template <backend B>
void write_checkpoint(std::filesystem::path const& path, run_facts const& facts, run_state const& s,
                      parameter_list<B> const& parameters) {
  std::vector<step_row> steps;
  for (auto const& r : s.result.steps) steps.push_back(to_row(r));
  std::vector<evaluation_row> evaluations;
  for (auto const& r : s.result.evaluations) evaluations.push_back(to_row(r));
  std::vector<io::safetensors_tensor> tensors;
  auto const add_rows = [&]<std::size_t N>(char const* name, std::vector<std::array<double, N>> const& rows) {
    tensors.push_back(
        {name, io::safetensors_dtype::f64, {index_t(rows.size()), index_t(N)}, std::as_bytes(std::span(rows))});
  };
  add_rows("records.steps", steps);
  add_rows("records.evaluations", evaluations);
  auto updates = nlohmann::ordered_json::object();
  for (auto const* p : parameters) {
    detail::append_tensors(tensors, *p);
    if (p->trainable()) updates[p->name()] = p->updates;
  }
  std::sort(tensors.begin(), tensors.end(), [](auto const& a, auto const& b) { return a.name < b.name; });

  auto fact_text = nlohmann::ordered_json::object();
  for (auto const& f : facts) fact_text[f.key] = f.value;
  nlohmann::ordered_json const place{{"phase", s.phase},
                                     {"phase_step", s.phase_step},
                                     {"epoch", s.order.epoch},
                                     {"position", s.order.position},
                                     {"seen", s.seen},
                                     {"total_tokens", s.counts.total},
                                     {"unique_tokens", s.counts.unique},
                                     {"active_layer_tokens", s.counts.active_layer},
                                     {"skipped", s.result.skipped},
                                     {"seconds", s.result.seconds}};
  std::map<std::string, std::string> metadata{{"format", detail::checkpoint_format},
                                              {"facts", fact_text.dump()},
                                              {"place", place.dump()},
                                              {"updates", updates.dump()},
                                              {"records.steps", detail::joined(step_columns)},
                                              {"records.evaluations", detail::joined(evaluation_columns)}};
  metadata["checksum"] = detail::checksum(metadata, tensors);

  io::safetensors_writer out(path);
  for (auto const& [key, value] : metadata) out.metadata(key, value);
  std::stable_sort(tensors.begin(), tensors.end(), [](auto const& a, auto const& b) {  // aligns all of them
    return io::layout_of(a.dtype).bits > io::layout_of(b.dtype).bits;
  });
  for (auto const& t : tensors) out.declare(t.name, t.dtype, t.shape);
  for (auto const& t : tensors)
    if (!t.bytes.empty()) out.append(t.name, t.bytes);
  out.commit();
}

/// A checkpoint that is whole: opening it reads all of it once, and throws io_error where a bit is not as it
/// was written, config_error where another version wrote it.
class checkpoint_file {
 public:
  explicit checkpoint_file(std::filesystem::path const& path) : file_(path) {
    if (auto const sum = detail::checksum(file_.metadata(), file_.tensors()); sum != text_of("checksum"))
      throw io_error(where(), "checksum " + sum, text_of("checksum") + " as written", "the file is damaged");
    if (auto const format = text_of("format"); format != detail::checkpoint_format)
      throw config_error(where(), "format " + io::name_text(format), io::name_text(detail::checkpoint_format),
                         "go on with the version that wrote it");
    auto const facts = parse("facts");
    for (auto const& f : facts.items())
      facts_.emplace_back(f.key(), f.as_string(where() + ": " + io::name_text(f.key())));
    read_place();
    auto const updates = parse("updates");
    for (auto const& u : updates.items()) updates_.emplace(u.key(), u.as_index(where() + ": updates"));
    read_rows("records.steps", state_.result.steps, &step_from);
    read_rows("records.evaluations", state_.result.evaluations, &evaluation_from);
  }

  [[nodiscard]] std::filesystem::path const& path() const { return file_.path(); }
  [[nodiscard]] std::string where() const { return "checkpoint " + io::path_text(file_.path()); }
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> const& facts() const { return facts_; }
  /// Where the run stood; `result` has the records and no name.
  [[nodiscard]] run_state const& state() const { return state_; }

  /// Values, moments and update counts of parameters that have the shapes and train as those that were written.
  /// Throws io_error that names the first one which does not fit; then nothing was changed.
  template <backend B>
  void read_parameters(parameter_list<B> const& parameters) const {
    std::vector<io::safetensors_tensor> wanted;
    for (auto const* p : parameters) {
      detail::append_tensors(wanted, *p);
      if (p->trainable() && updates_.find(p->name()) == updates_.end())
        throw io_error(where(), "no update count of " + io::name_text(p->name()), "one, as it trains");
    }
    std::set<std::string_view> names{"records.steps", "records.evaluations"};
    for (auto const& w : wanted) {
      names.insert(w.name);
      auto const& found = file_.tensor(w.name);
      if (found.dtype != w.dtype || found.shape != w.shape)
        throw io_error(where() + ": tensor " + io::name_text(w.name),
                       io::name_of(found.dtype) + io::shape_text(found.shape),
                       io::name_of(w.dtype) + io::shape_text(w.shape), "it belongs to another student");
    }
    for (auto const& t : file_.tensors())
      if (names.count(t.name) == 0)
        throw io_error(where() + ": tensor " + io::name_text(t.name), "one more", "those of the student alone",
                       "it belongs to another student, or to a later phase");
    auto const read = [&](std::string const& name, model::parameter_part const& part, auto whole) {
      auto const rows = whole.slice(part.first, part.rows);
      auto const bytes = file_.tensor(name).bytes;
      if (!bytes.empty()) std::memcpy(rows.data, bytes.data(), bytes.size());
    };
    for (auto* p : parameters) {
      for (auto const& part : p->parts) {
        read(part.name, part, p->value.view());
        if (!p->trainable()) continue;
        read(part.name + detail::moment_suffixes[0], part, p->moment1.view());
        read(part.name + detail::moment_suffixes[1], part, p->moment2.view());
      }
      if (p->trainable()) p->updates = updates_.find(p->name())->second;
    }
  }

 private:
  [[nodiscard]] std::string const& text_of(char const* key) const {
    auto const at = file_.metadata().find(key);
    if (at == file_.metadata().end())
      throw io_error(where(), std::string("no ") + key + " in its metadata", "a checkpoint");
    return at->second;
  }
  [[nodiscard]] io::json parse(char const* key) const {
    auto const value = io::json::parse(text_of(key), where() + ": " + key);
    if (!value.is_object()) throw io_error(where() + ": " + key, value.describe(), "an object");
    return value;
  }

  void read_place() {
    auto const place = parse("place");
    auto const member = [&](char const* name) -> io::json const& {
      auto const* found = place.find(name);
      if (found == nullptr) throw io_error(where() + ": place", std::string("no ") + name, "it");
      return *found;
    };
    auto const count = [&](char const* name) { return member(name).as_index(where() + ": " + name); };
    auto const number = [&](char const* name) { return member(name).as_double(where() + ": " + name); };
    state_.phase = int(count_in(double(count("phase")), "phase", where(), 0x1p31));
    state_.phase_step = count("phase_step");
    state_.order = {count("epoch"), count("position")};
    state_.seen = count("seen");
    state_.counts = {count("total_tokens"), count("unique_tokens"), number("active_layer_tokens")};
    state_.result.skipped = count("skipped");
    state_.result.seconds = number("seconds");
  }

  template <class Record, std::size_t N>
  void read_rows(char const* name, std::vector<Record>& out,
                 Record (*from)(std::array<double, N> const&, std::string const&)) {
    auto const& t = file_.tensor(name);
    std::string const here = where() + ": " + name;
    if (t.dtype != io::safetensors_dtype::f64 || t.shape.size() != 2 || t.shape[1] != index_t(N))
      throw io_error(here, io::name_of(t.dtype) + io::shape_text(t.shape),
                     "F64[rows, " + std::to_string(N) + "]");
    for (std::size_t at = 0; at < t.bytes.size(); at += N * sizeof(double)) {
      std::array<double, N> row;
      std::memcpy(row.data(), t.bytes.data() + at, sizeof row);
      out.push_back(from(row, here));
    }
  }

  io::safetensors_file file_;
  std::vector<std::pair<std::string, std::string>> facts_;
  std::map<std::string, std::int64_t> updates_;
  run_state state_;
};

}  // namespace accrete::inline v0::train
