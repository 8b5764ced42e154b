#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "accrete/core/rng.hpp"
#include "accrete/data/ragged_batch.hpp"
#include "accrete/model/operand_room.hpp"
#include "accrete/model/teacher.hpp"

namespace accrete::inline v0::model {

/// How the next token is chosen. A temperature of 0 takes the most likely one.
struct sampling {
  double temperature = 0;
  index_t top_k = 0;  ///< only the k most likely; 0: all
  double top_p = 1;   ///< only the most likely that together reach p
  accrete::seed seed{42};
};

/// A token drawn from logits [V]; `draw` numbers the draws of a text, so that a text is a function of its seed.
/// Ties go to the lower id.
inline std::int32_t choose_token(std::span<double const> logits, sampling const& how, std::uint64_t draw) {
  std::vector<std::int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  auto const before = [&](std::int32_t a, std::int32_t b) {
    double const x = logits[std::size_t(a)];
    double const y = logits[std::size_t(b)];
    return x != y ? x > y : a < b;
  };
  if (how.temperature <= 0) return *std::min_element(order.begin(), order.end(), before);
  auto const wanted = how.top_k > 0 ? (std::min)(std::size_t(how.top_k), order.size()) : order.size();
  std::partial_sort(order.begin(), order.begin() + std::ptrdiff_t(wanted), order.end(), before);
  order.resize(wanted);
  std::vector<double> weight;
  for (auto id : order)
    weight.push_back(
        std::exp((logits[std::size_t(id)] - logits[std::size_t(order.front())]) / how.temperature));
  double const all = std::accumulate(weight.begin(), weight.end(), 0.0);
  double reached = 0;
  std::size_t kept = 0;
  while (kept < weight.size() && reached < how.top_p * all) reached += weight[kept++];
  kept = std::max<std::size_t>(kept, 1);
  double const kept_weight = std::accumulate(weight.begin(), weight.begin() + std::ptrdiff_t(kept), 0.0);
  double point = random_stream(how.seed, "sampling").uniform(draw) * kept_weight;
  for (std::size_t i = 0; i < kept; ++i) {
    point -= weight[i];
    if (point < 0) return order[i];
  }
  return order[kept - 1];
}

/// Continues `prompt` by up to `count` tokens, and stops after any token that ends a text. Each token runs the
/// whole text again: right for a look at what a model says, not for serving it. `on_token` sees each token as
/// it comes.
template <backend B>
std::vector<std::int32_t> generate(teacher<B>& t, std::vector<std::int32_t> prompt, index_t count,
                                   sampling const& how,
                                   std::function<void(std::int32_t)> const& on_token = {}) {
  auto const most = index_t(prompt.size()) + count;
  if (prompt.empty() || most > t.max_positions())
    throw config_error(
        "generate", std::to_string(prompt.size()) + " tokens of prompt and " + std::to_string(count) + " more",
        "1 or more of prompt and at most " + std::to_string(t.max_positions()) + " in all");
  auto const vocabulary = t.config().vocab_size;
  data::check_ids(prompt, vocabulary, "generate");
  auto memory = t.make_workspace(most);
  tensor<typename B::real, 2, typename B::space> logits({1, vocabulary});
  tensor<typename B::real, 1> on_host({vocabulary});
  operand_room<B> room;
  std::vector<double> row(static_cast<std::size_t>(vocabulary));
  data::ragged_batch batch;
  for (index_t i = 0; i < count; ++i) {
    batch.clear();
    batch.append(prompt);
    auto const hidden = t.forward(views_of(batch), memory);
    linear(t.context(), room.hold(t.context(), hidden.slice(hidden.rows() - 1, 1)), t.head()->view(),
           logits.view(), store::replace);
    download(t.context(), logits.view().flat(), on_host.view());
    std::copy(on_host.data(), on_host.data() + vocabulary, row.begin());
    prompt.push_back(choose_token(row, how, std::uint64_t(i)));
    if (on_token) on_token(prompt.back());
    auto const& ends = t.config().eos_token_ids;
    if (std::find(ends.begin(), ends.end(), prompt.back()) != ends.end()) break;
  }
  return prompt;
}

}  // namespace accrete::inline v0::model
