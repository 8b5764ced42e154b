#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "accrete/core/error.hpp"
#include "accrete/data/detail/tokenizer_json.hpp"
#include "accrete/data/tokenizer_spec.hpp"
#include "accrete/io/message_text.hpp"
#include "accrete/io/placed_json.hpp"

namespace accrete::inline v0::data::detail {

/// Reads the `post_processor` of a tokenizer.json: the token it puts in front of a text and the one behind it.
/// Throws io_error on more of them, and on other kinds.
inline void read_hf_post_processor(io::placed_json const& p, tokenizer_spec& spec) {
  if (p.is_null()) return;
  auto const kind = kind_of(p);
  if (kind == "Sequence") {
    require_only(p, {"type", "processors"});
    for (auto const& each : p.at("processors").as_list()) read_hf_post_processor(each, spec);
  } else if (kind == "ByteLevel") {  // moves offsets, adds nothing
    require_only(p, {"type", "add_prefix_space", "trim_offsets", "use_regex"});
  } else if (kind == "TemplateProcessing") {
    require_only(p, {"type", "single", "pair", "special_tokens"});
    bool behind = false;
    for (auto const& each : p.at("single").as_list()) {
      if (!each.at("Sequence").is_null()) {
        if (behind) throw io_error(each.where, "a text twice", "it once");
        behind = true;
        continue;
      }
      auto const name = each.at("SpecialToken").at("id");
      auto const ids = p.at("special_tokens").at_name(name.as_string()).at("ids").as_list();
      auto& place = behind ? spec.eos : spec.bos;
      auto& adds = behind ? spec.add_eos : spec.add_bos;
      if (ids.size() != 1 || adds)
        throw io_error(each.where, "more than one token",
                       behind ? "one behind a text" : "one in front of a text");
      place = token_id(ids[0]);
      adds = true;
    }
  } else {
    refuse(p, "'ByteLevel', 'TemplateProcessing' or a Sequence of them");
  }
}

/// The id of a token by its text as tokenizer_config.json says it; an added token comes before a word.
[[nodiscard]] inline std::int32_t find_token(tokenizer_spec const& spec, std::string const& text,
                                             std::string const& where) {
  if (spec.added)
    for (auto const& t : *spec.added)
      if (spec.tokens[std::size_t(t.id)] == text) return t.id;
  for (std::size_t id = 0; id < spec.tokens.size(); ++id)
    if (spec.tokens[id] == text && spec.kinds[id] == tokenizer_spec::normal) return std::int32_t(id);
  throw io_error(where, io::name_text(text), "a token of tokenizer.json");
}

/// What the files beside a tokenizer.json say of the tokens that begin and end a text: tokenizer_config.json,
/// else generation_config.json, else config.json. Throws io_error that names file and key.
inline void read_hf_text_ends(std::filesystem::path const& folder, tokenizer_spec& spec) {
  bool const bos_known = spec.add_bos, eos_known = spec.add_eos;
  std::optional<std::int32_t> bos, eos;
  auto const read = [&](char const* name, auto&& from) {
    auto const path = folder / name;
    if (auto const file = read_json_beside(path)) from(io::placed_json{*file, tokenizer_file_name(path)});
  };
  read("tokenizer_config.json", [&](io::placed_json const& root) {
    auto const token = [&](char const* key) -> std::optional<std::int32_t> {
      auto const v = root.at(key);
      if (v.is_null()) return std::nullopt;
      auto const text = v.value.is_object() ? v.at("content") : v;
      return find_token(spec, text.as_string(), v.where);
    };
    bos = token("bos_token");
    eos = token("eos_token");
    spec.add_bos = root.flag("add_bos_token", spec.add_bos);
    spec.add_eos = root.flag("add_eos_token", spec.add_eos);
  });
  for (auto const* const name : {"generation_config.json", "config.json"})
    read(name, [&](io::placed_json const& root) {
      auto const id = [&](char const* key) -> std::optional<std::int32_t> {
        auto const v = root.at(key);
        if (v.is_null()) return std::nullopt;
        if (!v.value.is_array()) return token_id(v);
        if (v.value.items().empty()) return std::nullopt;
        return token_id({v.value.items().front(), v.where});  // the first of several
      };
      if (!bos) bos = id("bos_token_id");
      if (!eos) eos = id("eos_token_id");
    });
  // What the template puts there is what a text begins with, whatever else is called bos.
  auto const size = std::int32_t(spec.tokens.size());
  if (!bos_known && bos) spec.bos = *bos < size ? *bos : -1;
  if (!eos_known && eos) spec.eos = *eos < size ? *eos : -1;
}

}  // namespace accrete::inline v0::data::detail
