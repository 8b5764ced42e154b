#pragma once
#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "accrete/core/error.hpp"
#include "accrete/data/detail/tokenizer_json.hpp"
#include "accrete/data/normal_form.hpp"
#include "accrete/data/oniguruma.hpp"
#include "accrete/data/split_step.hpp"
#include "accrete/data/tokenizer_spec.hpp"
#include "accrete/io/message_text.hpp"
#include "accrete/io/placed_json.hpp"

namespace accrete::inline v0::data::detail {

/// Reads the `normalizer` of a tokenizer.json: one normalization form, or none. Throws io_error on any other.
inline void read_hf_normalizer(io::placed_json const& n, tokenizer_spec& spec) {
  if (n.is_null()) return;
  auto const kind = kind_of(n);
  if (kind == "Sequence") {
    require_only(n, {"type", "normalizers"});
    for (auto const& each : n.at("normalizers").as_list()) read_hf_normalizer(each, spec);
    return;
  }
  for (auto const& [name, form] : {std::pair{"NFC", normal_form::nfc}, std::pair{"NFD", normal_form::nfd},
                                   std::pair{"NFKC", normal_form::nfkc}, std::pair{"NFKD", normal_form::nfkd}})
    if (kind == name) {
      require_only(n, {"type"});
      if (spec.normalization != normal_form::none && spec.normalization != form)
        refuse(n, "no second normalization form");
      spec.normalization = form;
      return;
    }
  refuse(n, "'NFC', 'NFD', 'NFKC', 'NFKD' or a Sequence of one");
}

/// A Split as a step: its pattern, what becomes of the matches, and whether they are what lies between.
[[nodiscard]] inline split_step read_hf_split(io::placed_json const& p) {
  require_only(p, {"type", "pattern", "behavior", "invert"});
  split_step step;
  auto const pattern = p.at("pattern");
  if (auto const regex = pattern.at("Regex"); !regex.is_null())
    step.pattern = pcre2_pattern(regex.as_string(), regex.where);
  else if (auto const literal = pattern.at("String"); !literal.is_null())
    step.pattern = pcre2_literal(literal.as_string());
  if (step.pattern.empty()) throw io_error(pattern.where, pattern.value.describe(), "a Regex or a String");
  auto const behavior = p.at("behavior");
  auto const& how = behavior.as_string();
  constexpr std::pair<std::string_view, split_step::behavior> known[] = {
      {"Isolated", split_step::isolated},
      {"Removed", split_step::removed},
      {"MergedWithPrevious", split_step::merged_with_previous},
      {"MergedWithNext", split_step::merged_with_next},
      {"Contiguous", split_step::contiguous}};
  auto const* const found =
      std::find_if(std::begin(known), std::end(known), [&](auto const& each) { return each.first == how; });
  if (found == std::end(known))
    throw io_error(behavior.where, io::name_text(how),
                   "Isolated, Removed, MergedWithPrevious, MergedWithNext or Contiguous");
  step.how = found->second;
  step.invert = p.flag("invert");
  return step;
}

/// Reads the `pre_tokenizer` of a tokenizer.json: appends its steps to `spec.steps` and returns whether a
/// ByteLevel ends them; `byte_level` says whether one came before. Throws io_error on steps of other kinds.
[[nodiscard]] inline bool read_hf_pre_tokenizer(io::placed_json const& p, tokenizer_spec& spec,
                                                bool byte_level = false) {
  if (p.is_null()) return byte_level;
  if (byte_level) refuse(p, "nothing behind a ByteLevel");
  auto const kind = kind_of(p);
  if (kind == "Sequence") {
    require_only(p, {"type", "pretokenizers"});
    for (auto const& each : p.at("pretokenizers").as_list())
      byte_level = read_hf_pre_tokenizer(each, spec, byte_level);
    return byte_level;
  }
  if (kind == "Split") {
    spec.steps->push_back(read_hf_split(p));
  } else if (kind == "Digits") {
    require_only(p, {"type", "individual_digits"});
    spec.steps->push_back(digits_step(p.flag("individual_digits")));
  } else if (kind == "ByteLevel") {
    require_only(p, {"type", "add_prefix_space", "trim_offsets", "use_regex"});
    split_step step = p.flag("use_regex", true) ? gpt2_step() : split_step{};
    step.prefix_space = p.flag("add_prefix_space", true);
    if (!step.pattern.empty() || step.prefix_space) spec.steps->push_back(step);
    return true;
  } else {
    refuse(p, "'Split', 'Digits', 'ByteLevel' or a Sequence of them");
  }
  return false;
}

}  // namespace accrete::inline v0::data::detail
