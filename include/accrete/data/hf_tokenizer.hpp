#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "accrete/core/error.hpp"
#include "accrete/data/byte_alphabet.hpp"
#include "accrete/data/oniguruma.hpp"
#include "accrete/data/split_step.hpp"
#include "accrete/data/tokenizer_spec.hpp"
#include "accrete/io/json.hpp"
#include "accrete/io/mapped_file.hpp"
#include "accrete/io/message_text.hpp"

namespace accrete::inline v0::data {

namespace detail {

/// A JSON value with the place it has in its file, for messages.
struct placed {
  io::json const& value;
  std::string where;

  [[nodiscard]] placed at(std::string_view key) const {
    static io::json const none;
    io::json const* const found = value.find(key);
    return {found == nullptr ? none : *found, where + "." + std::string(key)};
  }
  /// The same for a key that is itself out of the file.
  [[nodiscard]] placed at_name(std::string_view key) const {
    return {at(key).value, where + "." + io::name_text(key)};
  }
  [[nodiscard]] bool is_null() const { return value.is_null(); }
  [[nodiscard]] bool flag(std::string_view key, bool otherwise = false) const {
    auto const v = at(key);
    return v.is_null() ? otherwise : v.value.as_bool(v.where);
  }
  [[nodiscard]] std::string const& text(std::string_view key) const {
    auto const v = at(key);
    return v.value.as_string(v.where);
  }
  [[nodiscard]] std::vector<placed> list(std::string_view key) const {
    auto const v = at(key);
    if (!v.value.is_array()) throw io_error(v.where, v.value.describe(), "an array");
    std::vector<placed> all;
    for (auto const& item : v.value.items())
      all.push_back({item, v.where + "[" + std::to_string(all.size()) + "]"});
    return all;
  }
  [[nodiscard]] std::int32_t id(std::string_view key) const {
    auto const v = at(key);
    return v.id();
  }
  [[nodiscard]] std::int32_t id() const {
    auto const n = value.as_index(where);
    if (n >= (std::numeric_limits<std::int32_t>::max)())
      throw io_error(where, std::to_string(n), "an id below 2^31");
    return std::int32_t(n);
  }
  /// Everything the file says here is among what is known.
  void only(std::initializer_list<std::string_view> known) const {
    for (auto const& item : value.items()) {
      bool found = false;
      for (auto const k : known) found = found || item.key() == k;
      if (!found && !item.is_null())
        throw io_error(where, io::name_text(item.key()), "only what is known of a " + io::name_text(kind()),
                       "this tokenizer needs what the library does not have");
    }
  }
  [[nodiscard]] std::string kind() const {
    auto const* const type = value.find("type");
    return type != nullptr && type->is_string() ? type->as_string(where) : "tokenizer";
  }
  [[noreturn]] void refuse(std::string const& expected) const {
    throw io_error(where, value.is_object() ? io::name_text(kind()) : value.describe(), expected,
                   "this tokenizer needs what the library does not have");
  }
};

/// Reads tokenizer.json: the byte-level BPE in it. Whatever it says that is not understood is refused by name.
class hf_tokenizer_reader {
 public:
  explicit hf_tokenizer_reader(std::string source) { spec_.source = std::move(source); }

  tokenizer_spec read(io::json const& file) {
    placed const root{file, "data::tokenizer " + spec_.source + ": tokenizer"};
    if (!file.is_object()) throw io_error(root.where, file.describe(), "an object");
    root.only({"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer",
               "post_processor", "decoder", "model"});
    model(root.at("model"));
    vocab_ = root.at("model").value.find("vocab");
    spec_.steps.emplace();
    normalizer(root.at("normalizer"));
    bool byte_level = false;
    pre_tokenizer(root.at("pre_tokenizer"), byte_level);
    if (!byte_level)
      throw io_error(root.at("pre_tokenizer").where, "no ByteLevel", "one: a byte-level BPE",
                     "other kinds of tokenizer are not supported");
    decoder(root.at("decoder"));
    if (!root.at("added_tokens").is_null()) added(root.list("added_tokens"));
    post_processor(root.at("post_processor"));
    return std::move(spec_);
  }

 private:
  void model(placed const& m) {
    if (!m.value.is_object() || (m.kind() != "BPE" && !m.at("type").is_null())) m.refuse("'BPE'");
    m.only({"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk",
            "byte_fallback", "ignore_merges", "vocab", "merges"});
    for (auto const* const affix : {"continuing_subword_prefix", "end_of_word_suffix"})
      if (auto const v = m.at(affix); !v.is_null() && !v.value.as_string(v.where).empty())
        throw io_error(v.where, v.value.describe(), "null or \"\"", "words are bytes here, without marks");
    if (auto const v = m.at("dropout"); !v.is_null() && v.value.as_double(v.where) != 0)
      throw io_error(v.where, v.value.describe(), "null", "one text shall have one list of tokens");

    auto const vocab = m.at("vocab");
    if (!vocab.value.is_object() || vocab.value.items().empty())
      throw io_error(vocab.where, vocab.value.describe(), "an object of tokens and ids");
    std::size_t size = 0;
    for (auto const& item : vocab.value.items())
      size =
          (std::max)(size, std::size_t(placed{item, vocab.where + "." + io::name_text(item.key())}.id()) + 1);
    // Ids may have holes, but no more of them than tokens: the file's size bounds what is allocated.
    if (size > 2 * vocab.value.items().size() + 65536)
      throw io_error(vocab.where,
                     "an id of " + std::to_string(size - 1) + " in " +
                         std::to_string(vocab.value.items().size()) + " tokens",
                     "ids without large holes");
    spec_.tokens.resize(size);
    spec_.kinds.assign(size, tokenizer_spec::unused);
    std::vector<bool> taken(size);
    for (auto const& item : vocab.value.items()) {
      auto const id = std::size_t(item.as_index(vocab.where));
      if (taken[id])
        throw io_error(vocab.where, "id " + std::to_string(id) + " twice, for " + io::name_text(item.key()),
                       "each id once");
      taken[id] = true;
      spec_.tokens[id] = item.key();
      // What stands for no bytes can be no word either; it keeps its id.
      if (gpt2_bytes.read(item.key())) spec_.kinds[id] = tokenizer_spec::normal;
    }
    merges(m.at("merges"));
    if (auto const unk = m.at("unk_token"); !unk.is_null()) {
      auto const* const id = vocab.value.find(unk.value.as_string(unk.where));
      if (id == nullptr) throw io_error(unk.where, unk.value.describe(), "a token of the vocabulary");
      spec_.unknown = placed{*id, unk.where}.id();
    } else {
      spec_.drop_lacking = true;
    }
    spec_.fuse_unknown = m.flag("fuse_unk");
    spec_.ignore_merges = m.flag("ignore_merges");
    if (m.flag("byte_fallback"))
      for (unsigned b = 0; b < 256; ++b) {
        char const byte = char(b);
        if (vocab.value.find(gpt2_bytes.write({&byte, 1})) == nullptr)
          throw io_error(m.at("byte_fallback").where, "true, and no token for byte " + std::to_string(b),
                         "a token for every byte, so that none has to fall back");
      }
  }

  void merges(placed const& all) {
    if (!all.value.is_array()) throw io_error(all.where, all.value.describe(), "an array of merges");
    spec_.merges.reserve(all.value.items().size());
    for (auto const& item : all.value.items()) {
      if (item.is_string()) {
        auto const& text = item.as_string(all.where);
        if (!text.starts_with("#version")) spec_.merges.push_back(text);
        continue;
      }
      if (!item.is_array() || item.items().size() != 2)
        throw io_error(all.where + "[" + std::to_string(spec_.merges.size()) + "]", item.describe(),
                       "\"left right\" or [\"left\", \"right\"]");
      spec_.add_merge(item.items()[0].as_string(all.where), item.items()[1].as_string(all.where));
    }
  }

  void normalizer(placed const& n) {
    if (n.is_null()) return;
    if (n.kind() == "Sequence") {
      n.only({"type", "normalizers"});
      for (auto const& each : n.list("normalizers")) normalizer(each);
      return;
    }
    for (auto const& [name, form] :
         {std::pair{"NFC", normal_form::nfc}, std::pair{"NFD", normal_form::nfd},
          std::pair{"NFKC", normal_form::nfkc}, std::pair{"NFKD", normal_form::nfkd}})
      if (n.kind() == name) {
        n.only({"type"});
        if (spec_.normalization != normal_form::none && spec_.normalization != form)
          n.refuse("no second normalization form");
        spec_.normalization = form;
        return;
      }
    n.refuse("'NFC', 'NFD', 'NFKC', 'NFKD' or a Sequence of one");
  }

  void pre_tokenizer(placed const& p, bool& byte_level) {
    auto const kind = p.is_null() ? std::string() : p.kind();
    if (byte_level && !p.is_null()) p.refuse("nothing behind a ByteLevel");
    if (kind == "Sequence") {
      p.only({"type", "pretokenizers"});
      for (auto const& each : p.list("pretokenizers")) pre_tokenizer(each, byte_level);
    } else if (kind == "Split") {
      p.only({"type", "pattern", "behavior", "invert"});
      split(p);
    } else if (kind == "Digits") {
      p.only({"type", "individual_digits"});
      spec_.steps->push_back(digits_step(p.flag("individual_digits")));
    } else if (kind == "ByteLevel") {
      p.only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
      split_step step = p.flag("use_regex", true) ? gpt2_step() : split_step{};
      step.prefix_space = p.flag("add_prefix_space", true);
      if (!step.pattern.empty() || step.prefix_space) spec_.steps->push_back(step);
      byte_level = true;
    } else if (!p.is_null()) {
      p.refuse("'Split', 'Digits', 'ByteLevel' or a Sequence of them");
    }
  }

  void split(placed const& p) {
    split_step step;
    auto const pattern = p.at("pattern");
    if (auto const regex = pattern.at("Regex"); !regex.is_null())
      step.pattern = pcre2_pattern(regex.value.as_string(regex.where), regex.where);
    else if (auto const literal = pattern.at("String"); !literal.is_null())
      step.pattern = pcre2_literal(literal.value.as_string(literal.where));
    if (step.pattern.empty()) throw io_error(pattern.where, pattern.value.describe(), "a Regex or a String");
    auto const& how = p.text("behavior");
    constexpr std::pair<std::string_view, split_step::behavior> known[] = {
        {"Isolated", split_step::isolated},
        {"Removed", split_step::removed},
        {"MergedWithPrevious", split_step::merged_with_previous},
        {"MergedWithNext", split_step::merged_with_next},
        {"Contiguous", split_step::contiguous}};
    bool found = false;
    for (auto const& [name, behavior] : known)
      if (how == name) {
        step.how = behavior;
        found = true;
      }
    if (!found)
      throw io_error(p.at("behavior").where, io::name_text(how),
                     "Isolated, Removed, MergedWithPrevious, "
                     "MergedWithNext or Contiguous");
    step.invert = p.flag("invert");
    spec_.steps->push_back(std::move(step));
  }

  void decoder(placed const& d) {
    if (d.is_null()) return;  // bytes are bytes
    if (d.kind() == "Sequence") {
      d.only({"type", "decoders"});
      for (auto const& each : d.list("decoders")) decoder(each);
      return;
    }
    if (d.kind() != "ByteLevel") d.refuse("'ByteLevel'");
    d.only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
  }

  void added(std::vector<placed> const& tokens) {
    spec_.added.emplace();
    std::size_t const in_model = spec_.tokens.size();
    std::set<std::int32_t> ids;
    for (auto const& t : tokens) {
      t.only({"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
      auto const id = t.id("id");
      auto const& content = t.text("content");
      if (content.empty()) throw io_error(t.where, "no content", "the text of a token");
      if (!ids.insert(id).second)
        throw io_error(t.where, "id " + std::to_string(id) + " twice", "each id once");
      if (std::size_t(id) >= in_model + 2 * tokens.size() + 65536)
        throw io_error(t.where, "id " + std::to_string(id),
                       "one near the " + std::to_string(in_model) + " of the vocabulary");
      if (std::size_t(id) >= spec_.tokens.size()) {
        spec_.tokens.resize(std::size_t(id) + 1);
        spec_.kinds.resize(std::size_t(id) + 1, tokenizer_spec::unused);
      }
      if (auto const* const word = vocab_->find(content); word != nullptr && word->as_index(t.where) != id)
        throw io_error(t.where, io::name_text(content) + " of id " + std::to_string(id),
                       std::to_string(word->as_index(t.where)) + ", its id in the vocabulary");
      auto& known = spec_.tokens[std::size_t(id)];
      if (std::size_t(id) < in_model && !known.empty() && known != content)
        throw io_error(t.where, io::name_text(content) + " of id " + std::to_string(id),
                       io::name_text(known) + ", which the vocabulary has there");
      known = content;
      auto& kind = spec_.kinds[std::size_t(id)];
      tokenizer_spec::added_token made{.id = id,
                                       .special = t.flag("special"),
                                       .single_word = t.flag("single_word"),
                                       .lstrip = t.flag("lstrip"),
                                       .rstrip = t.flag("rstrip"),
                                       .normalized = t.flag("normalized", true)};
      // A word of the vocabulary that is an added token as well stays a word; control tokens never are words.
      if (made.special)
        kind = tokenizer_spec::control;
      else if (kind == tokenizer_spec::normal)
        made.content = content;
      else
        kind = tokenizer_spec::user_defined;
      spec_.added->push_back(std::move(made));
    }
  }

  // What it puts in front of a text and behind it.
  void post_processor(placed const& p) {
    if (p.is_null()) return;
    auto const kind = p.kind();
    if (kind == "Sequence") {
      p.only({"type", "processors"});
      for (auto const& each : p.list("processors")) post_processor(each);
    } else if (kind == "ByteLevel") {  // moves offsets, adds nothing
      p.only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
    } else if (kind == "TemplateProcessing") {
      p.only({"type", "single", "pair", "special_tokens"});
      bool behind = false;
      for (auto const& each : p.list("single")) {
        if (!each.at("Sequence").is_null()) {
          if (behind) throw io_error(each.where, "a text twice", "it once");
          behind = true;
          continue;
        }
        auto const token = each.at("SpecialToken");
        auto const ids = p.at("special_tokens").at_name(token.text("id")).list("ids");
        auto& place = behind ? spec_.eos : spec_.bos;
        auto& adds = behind ? spec_.add_eos : spec_.add_bos;
        if (ids.size() != 1 || adds)
          throw io_error(each.where, "more than one token",
                         behind ? "one behind a text" : "one in front of a text");
        place = ids[0].id();
        adds = true;
      }
    } else {
      p.refuse("'ByteLevel', 'TemplateProcessing' or a Sequence of them");
    }
  }

  tokenizer_spec spec_;
  io::json const* vocab_ = nullptr;
};

/// A JSON file beside another; nothing where there is none.
[[nodiscard]] inline std::optional<io::json> json_beside(std::filesystem::path const& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return std::nullopt;
  io::mapped_file const map(path);
  return io::json::parse({reinterpret_cast<char const*>(map.bytes().data()), map.bytes().size()},
                         "data::tokenizer " + io::path_text(path));
}

}  // namespace detail

/// The byte-level BPE of a Hugging Face directory, or of its tokenizer.json named itself: normalization form,
/// split patterns, added tokens, vocabulary and merges out of tokenizer.json; which tokens begin and end a text
/// out of tokenizer_config.json, else generation_config.json and config.json, where they are there.
/// `truncation` and `padding` concern batches and are passed over. Throws `io_error` that names file and place.
[[nodiscard]] inline tokenizer_spec tokenizer_spec_from_hf(std::filesystem::path path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) path /= "tokenizer.json";
  auto const folder = path.parent_path();
  tokenizer_spec spec;
  {
    io::mapped_file const map(path);
    auto const source = io::path_text(path);
    auto const file = io::json::parse({reinterpret_cast<char const*>(map.bytes().data()), map.bytes().size()},
                                      "data::tokenizer " + source);
    spec = detail::hf_tokenizer_reader(source).read(file);
    spec.file = path;
  }
  auto const id_of = [&](std::string const& text, std::string const& where) {
    for (auto const& t : spec.added.value_or(std::vector<tokenizer_spec::added_token>{}))
      if (spec.tokens[std::size_t(t.id)] == text) return t.id;
    for (std::size_t id = 0; id < spec.tokens.size(); ++id)
      if (spec.tokens[id] == text && spec.kinds[id] == tokenizer_spec::normal) return std::int32_t(id);
    throw io_error(where, io::name_text(text), "a token of tokenizer.json");
  };
  bool const bos_known = spec.add_bos, eos_known = spec.add_eos;
  std::optional<std::int32_t> bos, eos;
  auto const config_file = folder / "tokenizer_config.json";
  if (auto const config = detail::json_beside(config_file)) {
    detail::placed const root{*config, "data::tokenizer " + io::path_text(config_file)};
    auto const token = [&](char const* key) -> std::optional<std::int32_t> {
      auto const v = root.at(key);
      if (v.is_null()) return std::nullopt;
      auto const& text = v.value.is_object() ? v.text("content") : v.value.as_string(v.where);
      return id_of(text, v.where);
    };
    bos = token("bos_token");
    eos = token("eos_token");
    spec.add_bos = root.flag("add_bos_token", spec.add_bos);
    spec.add_eos = root.flag("add_eos_token", spec.add_eos);
  }
  for (auto const* const name : {"generation_config.json", "config.json"}) {
    auto const config = detail::json_beside(folder / name);
    if (!config) continue;
    detail::placed const root{*config, "data::tokenizer " + io::path_text(folder / name)};
    auto const id = [&](char const* key) -> std::optional<std::int32_t> {
      auto const v = root.at(key);
      if (v.is_null()) return std::nullopt;
      if (!v.value.is_array()) return v.id();  // the first of several
      if (v.value.items().empty()) return std::nullopt;
      return detail::placed{v.value.items().front(), v.where}.id();
    };
    if (!bos) bos = id("bos_token_id");
    if (!eos) eos = id("eos_token_id");
  }
  // What the template puts there is what a text begins with, whatever else is called bos.
  auto const size = std::int32_t(spec.tokens.size());
  if (!bos_known && bos) spec.bos = *bos < size ? *bos : -1;
  if (!eos_known && eos) spec.eos = *eos < size ? *eos : -1;
  return spec;
}

}  // namespace accrete::inline v0::data
