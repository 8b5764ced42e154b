#pragma once
#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "accrete/core/error.hpp"
#include "accrete/io/json.hpp"
#include "accrete/io/message_text.hpp"
#include "accrete/io/model_config.hpp"
#include "accrete/io/placed_json.hpp"
#include "accrete/io/rotary_scaling.hpp"

namespace accrete::inline v0::io::detail {

/// Reads what a config.json says of the rotation of queries and keys. Any but the plain one and Llama 3's is
/// refused by name.
class hf_rotary_reader {
 public:
  /// `root` is the whole file and has to outlive the reader.
  explicit hf_rotary_reader(placed_json const& root) : root_(root) {}

  /// `rope_theta` and `rotary` of a config whose architecture is read. Newer files keep everything in
  /// rope_parameters, older ones theta at the top and the rest in rope_scaling. Taking 10,000 when no place has
  /// it, or leaving a scaling out, are the commonest silent faults of readers of these files.
  void read(model_config& c) const {
    auto const own = root_.at(c.architecture == "accrete" ? "rotary" : "rope_parameters");
    placed_json const parameters{own.value, root_.at("rope_parameters").where};
    auto const scaling = root_.at("rope_scaling");
    if (!parameters.is_null()) c.rotary = scaling_in(parameters);
    if (!scaling.is_null()) {
      auto const older = scaling_in(scaling);
      if (!parameters.is_null() && !(older == c.rotary))
        throw io_error(root_.where, "rope_parameters and rope_scaling that differ",
                       "one of them, or the same in both");
      c.rotary = older;
    }
    for (auto const* const place : {&parameters, &scaling, &root_})
      if (auto const theta = place->at("rope_theta"); !theta.is_null()) {
        c.rope_theta = theta.value.as_double(root_.at("rope_theta").where);
        return;
      }
    throw io_error(root_.where, "no rope_theta", "it, in rope_parameters or at the top",
                   "no base is made up; the first Llama models mean 10000.0, which has to be written there");
  }

  /// Refuses heads of which `place`, the whole file or a part of it, rotates a part.
  void require_whole_heads(placed_json const& place) const {
    auto const part = place.at("partial_rotary_factor");
    auto const here = root_.at("partial_rotary_factor").where;
    if (!part.is_null() && part.value.as_double(here) != 1.0)
      throw io_error(here, part.value.describe(), "1", "heads are rotated whole");
  }

 private:
  [[nodiscard]] rotary_scaling scaling_in(placed_json const& rope) const {
    if (!rope.value.is_object()) throw io_error(rope.where, rope.value.describe(), "an object or null");
    std::string const kind = kind_of(rope);
    for (json const& each : rope.value.items()) {
      constexpr std::array<std::string_view, 8> known{"rope_type",       "type",
                                                      "rope_theta",      "original_max_position_embeddings",
                                                      "low_freq_factor", "high_freq_factor",
                                                      "factor",          "partial_rotary_factor"};
      if (!each.is_null() && std::find(known.begin(), known.end(), each.key()) == known.end())
        throw io_error(rope.where, "a key " + name_text(each.key()),
                       "only what plain and Llama 3's rotation have", "leaving it out would change the model");
    }
    require_whole_heads(rope);
    auto const factor = rope.at("factor");
    if (kind == "default") {
      if (!factor.is_null() && factor.as_double() != 1.0)
        throw io_error(rope.where, "factor " + factor.value.describe() + " and no rope_type",
                       "a rope_type that says what it is for");
      return {};
    }
    auto const required = [&](char const* key) {
      return rope.required(key, "it, since rope_type is 'llama3'");
    };
    rotary_scaling s;
    s.kind = rotary_kind::llama3;
    s.factor = required("factor").as_double();
    s.low_freq_factor = required("low_freq_factor").as_double();
    s.high_freq_factor = required("high_freq_factor").as_double();
    auto const original = required("original_max_position_embeddings");
    (void)original.as_double();  // what is no number is refused as such
    s.original_max_position_embeddings = original.as_index();
    return s;
  }

  [[nodiscard]] static std::string kind_of(placed_json const& rope) {
    auto const newer = rope.at("rope_type");
    auto const older = rope.at("type");
    auto const& kind = newer.is_null() ? older : newer;
    if (kind.is_null()) return "default";
    auto const& text = kind.as_string();
    if (!newer.is_null() && !older.is_null() && older.as_string() != text)
      throw io_error(rope.where, "rope_type " + name_text(text) + " and type " + older.value.describe(),
                     "them equal, or one of them");
    if (text != "default" && text != "llama3")
      throw io_error(rope.where, "the rotary type " + name_text(text), "'default' or 'llama3'",
                     "other scalings are not implemented");
    return text;
  }

  placed_json const& root_;
};

}  // namespace accrete::inline v0::io::detail
