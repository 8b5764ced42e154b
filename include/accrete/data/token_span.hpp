#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <span>
#include <vector>

#include "accrete/core/view.hpp"

namespace accrete::inline v0::data {

/// The tokens of a document where they lie: in a vector, or in a mapped file with 16 or 32 bits each, at any
/// address. Reading one widens it.
class token_span {
 public:
  class iterator {
   public:
    using iterator_concept = std::forward_iterator_tag;
    using iterator_category = std::forward_iterator_tag;
    using value_type = std::int32_t;
    using difference_type = std::ptrdiff_t;
    using pointer = void;
    using reference = std::int32_t;

    iterator() = default;
    iterator(token_span const* tokens, index_t at) : tokens_(tokens), at_(at) {}
    [[nodiscard]] std::int32_t operator*() const { return (*tokens_)[at_]; }
    iterator& operator++() {
      ++at_;
      return *this;
    }
    iterator operator++(int) { return {tokens_, at_++}; }
    friend bool operator==(iterator const& a, iterator const& b) { return a.at_ == b.at_; }

   private:
    token_span const* tokens_ = nullptr;
    index_t at_ = 0;
  };

  token_span() = default;
  token_span(std::span<std::int32_t const> tokens)  // a plain list is one, too
      : first_(reinterpret_cast<std::byte const*>(tokens.data())), size_(index_t(tokens.size())) {}
  token_span(std::vector<std::int32_t> const& tokens) : token_span(std::span<std::int32_t const>(tokens)) {}
  /// `size` tokens of `bytes` (2 or 4) bytes each.
  token_span(std::byte const* first, index_t size, index_t bytes)
      : first_(first), size_(size), narrow_(bytes == 2) {}

  [[nodiscard]] index_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] std::int32_t operator[](index_t i) const {
    if (narrow_) {
      std::uint16_t id = 0;
      std::memcpy(&id, first_ + 2 * i, sizeof id);
      return id;
    }
    std::int32_t id = 0;
    std::memcpy(&id, first_ + 4 * i, sizeof id);
    return id;
  }
  [[nodiscard]] iterator begin() const { return {this, 0}; }
  [[nodiscard]] iterator end() const { return {this, size_}; }

  /// Writes all of them to `out`.
  void copy_to(std::int32_t* out) const {
    if (size_ == 0) return;
    if (!narrow_) {
      std::memcpy(out, first_, std::size_t(size_) * sizeof *out);
      return;
    }
    for (index_t i = 0; i < size_; ++i) {
      std::uint16_t id = 0;
      std::memcpy(&id, first_ + 2 * i, sizeof id);
      out[i] = id;
    }
  }
  [[nodiscard]] std::vector<std::int32_t> to_vector() const {
    std::vector<std::int32_t> all(std::size_t(size_), 0);
    copy_to(all.data());
    return all;
  }
  /// The first id that is not in [0, vocabulary), as an index; `size()` where there is none.
  [[nodiscard]] index_t find_outside(index_t vocabulary) const {
    // One pass without a branch first: it is made for every document that is read.
    std::uint32_t largest = 0;
    for (index_t i = 0; i < size_; ++i) {
      auto const id = std::uint32_t((*this)[i]);  // a negative one is large
      largest = id > largest ? id : largest;
    }
    if (size_ == 0 || index_t(largest) < vocabulary) return size_;
    index_t at = 0;
    while (index_t(std::uint32_t((*this)[at])) < vocabulary) ++at;
    return at;
  }

 private:
  std::byte const* first_ = nullptr;
  index_t size_ = 0;
  bool narrow_ = false;
};

}  // namespace accrete::inline v0::data
