#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "accrete/core/error.hpp"
#include "accrete/io/json.hpp"
#include "accrete/io/message_text.hpp"
#include "accrete/io/safetensors.hpp"
#include "accrete/model/parameter.hpp"
#include "accrete/train/checkpoint_tensors.hpp"
#include "accrete/train/run_state.hpp"

namespace accrete::inline v0::train {

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
    read_rows(detail::steps_tensor, state_.result.steps, &step_from);
    read_rows(detail::evaluations_tensor, state_.result.evaluations, &evaluation_from);
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
    std::set<std::string_view> names{detail::steps_tensor, detail::evaluations_tensor};
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
    for (auto* p : parameters) {
      detail::for_each_tensor(*p, [&](std::string const& name, auto numbers) {
        auto const bytes = file_.tensor(name).bytes;
        if (!bytes.empty()) std::memcpy(numbers.data, bytes.data(), bytes.size());
      });
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
