#pragma once
#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "accrete/core/config.hpp"
#include "accrete/core/error.hpp"
#include "accrete/core/format.hpp"
#include "accrete/data/corpus.hpp"
#include "accrete/data/shard.hpp"
#include "accrete/io/content_hash.hpp"
#include "accrete/io/message_text.hpp"
#include "accrete/model/fingerprint.hpp"
#include "accrete/model/grown_model.hpp"
#include "accrete/model/layer.hpp"
#include "accrete/train/recipe.hpp"
#include "accrete/train/run_facts.hpp"

namespace accrete::inline v0::train {

namespace detail {

/// What a message shows of `value`: all of it, or of a long one the part where it is another than `other`.
inline std::string excerpt(std::string_view value, std::string_view other) {
  constexpr std::size_t before = 30, most = 90;
  if (value.size() <= most) return io::name_text(value);
  auto const [at, ignored] = std::mismatch(value.begin(), value.end(), other.begin(), other.end());
  auto const differs = std::size_t(at - value.begin());
  std::size_t const first = differs > before ? differs - before : 0;
  auto const shown = io::name_text(value.substr(first, most));
  return (first > 0 ? "..." : "") + shown + (first + most < value.size() ? "..." : "");
}

}  // namespace detail

ACCRETE_INLINE run_facts facts_of(recipe const& r) {
  using enum run_fact::change;
  auto const text = [](auto v) { return fmt::format("{}", v); };  // numbers come back to the same bits
  return {{"seed", text(r.seed.value), refused},
          {"steps", text(r.steps), refused},
          {"batch_tokens", text(r.batch_tokens), refused},
          {"peak_learning_rate", text(r.peak_learning_rate), allowed},
          {"min_learning_rate", text(r.min_learning_rate), allowed},
          {"warmup", text(r.warmup), allowed},
          {"beta1", text(r.beta1), allowed},
          {"beta2", text(r.beta2), allowed},
          {"epsilon", text(r.epsilon), allowed},
          {"weight_decay", text(r.weight_decay), allowed},
          {"max_gradient_norm", text(r.max_gradient_norm), allowed},
          {"temperature", text(r.temperature), allowed},
          {"alpha", text(r.alpha), allowed},
          {"gamma", text(r.gamma), allowed},
          {"evaluate_every", text(r.evaluate_every), allowed},
          {"micro_tokens", text(r.micro_tokens), allowed},
          {"logits_bytes", text(r.logits_bytes), allowed},
          {"skip_nonfinite", text(r.skip_nonfinite), noted},
          {"recompute", std::string(recomputation_names[std::size_t(r.recompute)]), noted}};
}

ACCRETE_INLINE std::string text_identity(data::corpus const& text, data::shard const& documents) {
  io::content_hash hash;
  hash.update(text.identity()).update(std::as_bytes(std::span(documents)));
  return hash.hex();
}

ACCRETE_INLINE std::string layer_text(layer::features const& f, double rope_theta) {
  auto const& r = f.rotary;
  return fmt::format("head norms {:d} {:d} {:d}, biases {:d} {:d}, rotation {} {} {} {} {} of theta {}",
                     f.head_norms.q, f.head_norms.k, f.head_norms.v, f.qkv_bias, f.output_bias, int(r.kind),
                     r.factor, r.low_freq_factor, r.high_freq_factor, r.original_max_position_embeddings,
                     rope_theta);
}

ACCRETE_INLINE void check_allowed(run_facts const& now, std::vector<std::string> const& allow) {
  for (auto const& key : allow) {
    auto const at = std::find_if(now.begin(), now.end(), [&](run_fact const& f) { return f.key == key; });
    if (at != now.end() && at->when_changed != run_fact::change::refused) continue;
    std::string may;
    for (auto const& f : now)
      if (f.when_changed == run_fact::change::allowed) may += (may.empty() ? "" : ", ") + f.key;
    throw config_error("allow", io::name_text(key), "some of " + may,
                       at == now.end() ? "" : "with another " + key + " it is another run");
  }
}

ACCRETE_INLINE std::string compare(run_facts const& now,
                                   std::vector<std::pair<std::string, std::string>> const& before,
                                   std::vector<std::string> const& allow, std::string const& where) {
  std::string got, expected, passed, may;
  auto const add = [](std::string& list, std::string const& one) { list += (list.empty() ? "" : ", ") + one; };
  for (auto const& f : now) {
    auto const at = std::find_if(before.begin(), before.end(), [&](auto const& b) { return b.first == f.key; });
    std::string const was = at == before.end() ? "none" : at->second;
    if (was == f.value) continue;
    bool const named = std::find(allow.begin(), allow.end(), f.key) != allow.end();
    if (f.when_changed == run_fact::change::noted || (f.when_changed == run_fact::change::allowed && named)) {
      add(passed, f.key + " " + io::name_text(f.value) + " instead of " + io::name_text(was));
      continue;
    }
    add(got, f.key + " " + detail::excerpt(f.value, was));
    add(expected, detail::excerpt(was, f.value));
    if (f.when_changed == run_fact::change::allowed) add(may, f.key);
  }
  if (!got.empty())
    throw config_error(where, got, expected + " as it began",
                       "go on as it began, or begin another run in another folder" +
                           (may.empty() ? std::string() : "; allow may name " + may));
  return passed;
}

}  // namespace accrete::inline v0::train
