#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <system_error>

#include "accrete/core/error.hpp"
#include "accrete/data/gguf_tokenizer.hpp"
#include "accrete/data/hf_tokenizer.hpp"
#include "accrete/data/split_rule.hpp"
#include "accrete/data/tokenizer.hpp"
#include "accrete/io/atomic_file.hpp"
#include "accrete/io/gguf.hpp"
#include "accrete/io/mapped_file.hpp"
#include "accrete/io/message_text.hpp"

namespace accrete::inline v0::data {
namespace detail {

inline nlohmann::ordered_json byte_level(bool use_regex) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", use_regex}};
}

/// The pre-tokenizer that a rule's name stands for.
inline nlohmann::ordered_json pre_tokenizer_of(split_rule const& rule) {
  auto steps = nlohmann::ordered_json::array();
  if (rule.digits_apart) steps.push_back({{"type", "Digits"}, {"individual_digits", true}});
  if (!rule.pattern.empty())
    steps.push_back({{"type", "Split"},
                     {"pattern", {{"Regex", rule.pattern}}},
                     {"behavior", "Isolated"},
                     {"invert", false}});
  steps.push_back(byte_level(rule.pattern.empty()));
  return {{"type", "Sequence"}, {"pretokenizers", steps}};
}

/// tokenizer.json of a byte-level BPE whose split is one of `split_rules`, as files of GGUF say it.
inline nlohmann::ordered_json tokenizer_json(tokenizer_spec const& spec) {
  auto const& rule = find_split_rule(spec.split);
  auto vocabulary = nlohmann::ordered_json::object();
  auto added = nlohmann::ordered_json::array();
  for (std::size_t id = 0; id < spec.tokens.size(); ++id) {
    vocabulary[spec.tokens[id]] = id;
    auto const kind = spec.kinds.empty() ? tokenizer_spec::normal : spec.kinds[id];
    if (kind != tokenizer_spec::control && kind != tokenizer_spec::user_defined) continue;
    added.push_back({{"id", id},
                     {"content", spec.tokens[id]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", kind == tokenizer_spec::control}});
  }
  auto merges = nlohmann::ordered_json::array();
  for (auto const& merge : spec.merges) {
    auto const space = merge.find(' ');
    merges.push_back({merge.substr(0, space), merge.substr(space + 1)});
  }
  nlohmann::ordered_json normalizer, unknown;
  if (spec.normalization == normal_form::nfc) normalizer = {{"type", "NFC"}};
  if (spec.unknown >= 0) unknown = spec.tokens[std::size_t(spec.unknown)];
  nlohmann::ordered_json processor = byte_level(false);
  if (spec.add_bos || spec.add_eos) {
    auto single = nlohmann::ordered_json::array();
    auto pair = nlohmann::ordered_json::array();
    auto special = nlohmann::ordered_json::object();
    auto const text = [](char const* name, int type) {
      return nlohmann::ordered_json{{"Sequence", {{"id", name}, {"type_id", type}}}};
    };
    auto const token = [&](std::int32_t id, int type) {
      auto const& name = spec.tokens[std::size_t(id)];
      special[name] = {{"id", name}, {"ids", {id}}, {"tokens", {name}}};
      return nlohmann::ordered_json{{"SpecialToken", {{"id", name}, {"type_id", type}}}};
    };
    for (auto const& [name, type] : {std::pair{"A", 0}, std::pair{"B", 1}}) {
      auto one = nlohmann::ordered_json::array();
      if (spec.add_bos) one.push_back(token(spec.bos, type));
      one.push_back(text(name, type));
      if (spec.add_eos) one.push_back(token(spec.eos, type));
      if (type == 0) single = one;
      pair.insert(pair.end(), one.begin(), one.end());
    }
    processor = {
        {"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", special}};
  }
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", added},
          {"normalizer", normalizer},
          {"pre_tokenizer", pre_tokenizer_of(rule)},
          {"post_processor", processor},
          {"decoder", byte_level(true)},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", unknown},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", spec.fuse_unknown},
            {"byte_fallback", false},
            {"ignore_merges", rule.whole_words},
            {"vocab", vocabulary},
            {"merges", merges}}}};
}

inline nlohmann::ordered_json tokenizer_config(tokenizer_spec const& spec, std::string const& chat_template) {
  nlohmann::ordered_json json{{"tokenizer_class", "PreTrainedTokenizerFast"},
                              {"clean_up_tokenization_spaces", false},
                              {"add_bos_token", spec.add_bos},
                              {"add_eos_token", spec.add_eos}};
  for (auto const& [key, id] : {std::pair{"bos_token", spec.bos}, std::pair{"eos_token", spec.eos},
                                std::pair{"unk_token", spec.unknown}})
    if (id >= 0) json[key] = spec.tokens[std::size_t(id)];
  if (!chat_template.empty()) json["chat_template"] = chat_template;
  return json;
}

inline void copy_file(std::filesystem::path const& from, std::filesystem::path const& to) {
  std::error_code unknown;
  if (std::filesystem::file_size(from, unknown) == 0) return io::write_atomically(to, "");  // maps to nothing
  io::mapped_file const map(from);
  io::write_atomically(to, map.text());
}

}  // namespace detail

/// Writes the files that `transformers` opens a tokenizer from, so that a saved student reads text as its
/// teacher did: those of a Hugging Face directory as they are, those of a GGUF file written from its metadata.
/// Both are read again, from where the tokenizer came from. Throws io_error where that file is gone or has
/// become another one, config_error for a tokenizer that was made by hand.
inline void save_tokenizer(tokenizer const& words, std::filesystem::path const& folder) {
  auto const& file = words.file();
  if (file.empty())
    throw config_error("data::save_tokenizer", "a tokenizer that was made by hand", "one read from a file",
                       "write its files yourself");
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed)
    throw io_error("data::save_tokenizer " + io::path_text(folder), "'" + failed.message() + "'",
                   "a folder to write to");
  auto const require_same = [&](tokenizer_spec const& spec) {
    if (tokenizer(spec).identity() != words.identity())
      throw io_error("data::save_tokenizer " + io::path_text(file), "another tokenizer than was read from it",
                     "the same", "the file was replaced meanwhile");
  };
  if (file.extension() == ".json") {
    require_same(tokenizer_spec_from_hf(file));
    for (char const* name : {"tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
                             "vocab.json", "merges.txt", "chat_template.jinja"})
      if (std::filesystem::is_regular_file(file.parent_path() / name, failed))
        detail::copy_file(file.parent_path() / name, folder / name);
    return detail::copy_file(file, folder / "tokenizer.json");
  }
  io::gguf_file const gguf(file);
  auto const spec = tokenizer_spec_from_gguf(gguf);
  require_same(spec);
  std::string const chat(gguf.get<std::string_view>("tokenizer.chat_template", ""));
  try {
    io::write_atomically(folder / "tokenizer_config.json", detail::tokenizer_config(spec, chat).dump(2) + "\n");
    io::write_atomically(folder / "tokenizer.json", detail::tokenizer_json(spec).dump() + "\n");
  } catch (nlohmann::json::exception const&) {
    throw io_error("data::save_tokenizer " + io::path_text(file), "a token that is no UTF-8",
                   "tokens that JSON can hold");
  }
}

}  // namespace accrete::inline v0::data
