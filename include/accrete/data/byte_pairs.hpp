#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <tuple>
#include <vector>

#include "accrete/core/view.hpp"

namespace accrete::inline v0::data {

/// The merges of a byte-pair encoding as a hash table from two neighbouring ids to (rank, id of the pair).
class byte_pairs {
 public:
  struct merge {
    std::int32_t rank = -1;  // -1: no such pair
    std::int32_t merged = -1;
  };

  /// Room for `count` merges: half of the slots stay empty.
  explicit byte_pairs(std::size_t count) {
    std::size_t slots = 16;
    while (slots < 2 * count) slots *= 2;
    slots_.resize(slots);
  }

  /// The first entry for a pair counts; a later one of the same pair could never apply.
  void insert(std::int32_t left, std::int32_t right, merge value) {
    slot& s = slots_[find_slot(key(left, right))];
    if (s.value.rank < 0) s = {key(left, right), value};
  }
  [[nodiscard]] merge find(std::int32_t left, std::int32_t right) const {
    return slots_[find_slot(key(left, right))].value;
  }

  /// What `apply` works in; one for each thread.
  struct memory {
    struct symbol {
      std::int32_t id;
      index_t previous, next;  // -1: none
    };
    struct candidate {
      std::int32_t rank;
      index_t at;
      std::int32_t left, right, merged;
      // The lowest rank first, of equal ranks the leftmost: std's heap keeps the largest on top.
      friend bool operator<(candidate const& a, candidate const& b) {
        return std::tie(a.rank, a.at) > std::tie(b.rank, b.at);
      }
    };
    std::vector<symbol> symbols;
    std::vector<candidate> heap;
  };

  /// Merges the ids of one word until no pair is left and appends the result: O(n log n) for n ids, whatever
  /// the word.
  void apply(std::span<std::int32_t const> word, memory& m, std::vector<std::int32_t>& out) const {
    m.symbols.clear();
    m.heap.clear();
    auto const n = index_t(word.size());
    for (index_t i = 0; i < n; ++i) m.symbols.push_back({word[std::size_t(i)], i - 1, i + 1 < n ? i + 1 : -1});
    for (index_t i = 0; i + 1 < n; ++i) consider(m, i);
    while (!m.heap.empty()) {
      auto const best = m.heap.front();
      std::pop_heap(m.heap.begin(), m.heap.end());
      m.heap.pop_back();
      auto& left = m.symbols[std::size_t(best.at)];
      if (left.id != best.left || left.next < 0) continue;  // overtaken by an earlier merge
      auto& right = m.symbols[std::size_t(left.next)];
      if (right.id != best.right) continue;
      left.id = best.merged;
      left.next = right.next;
      right.id = gone;
      if (left.next >= 0) m.symbols[std::size_t(left.next)].previous = best.at;
      if (left.previous >= 0) consider(m, left.previous);
      if (left.next >= 0) consider(m, best.at);
    }
    for (index_t i = 0; i >= 0 && i < n; i = m.symbols[std::size_t(i)].next)
      out.push_back(m.symbols[std::size_t(i)].id);
  }

 private:
  static constexpr std::int32_t gone = -2;
  struct slot {
    std::uint64_t key = ~std::uint64_t{0};
    merge value;
  };

  static std::uint64_t key(std::int32_t left, std::int32_t right) {
    return std::uint64_t(std::uint32_t(left)) << 32 | std::uint32_t(right);
  }
  [[nodiscard]] std::size_t find_slot(std::uint64_t k) const {
    std::size_t const mask = slots_.size() - 1;
    std::size_t i = std::size_t((k * 0x9e3779b97f4a7c15ull) >> 32) & mask;
    while (slots_[i].value.rank >= 0 && slots_[i].key != k) i = (i + 1) & mask;
    return i;
  }
  void consider(memory& m, index_t at) const {
    auto const left = m.symbols[std::size_t(at)].id;
    auto const right = m.symbols[std::size_t(m.symbols[std::size_t(at)].next)].id;
    merge const found = find(left, right);
    if (found.rank < 0) return;
    m.heap.push_back({found.rank, at, left, right, found.merged});
    std::push_heap(m.heap.begin(), m.heap.end());
  }

  std::vector<slot> slots_;
};

}  // namespace accrete::inline v0::data
