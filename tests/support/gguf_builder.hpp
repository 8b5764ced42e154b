#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace test {

/// Writes GGUF files for tests, the wrong ones too: it checks nothing.
class gguf_builder {
 public:
  std::uint32_t version = 3;
  std::uint64_t alignment = 32;

  template <class T>
  static std::string raw(T value) {
    std::string out(sizeof(T), '\0');
    std::memcpy(out.data(), &value, sizeof(T));
    return out;
  }
  static std::string text(std::string_view value) {
    return raw(std::uint64_t(value.size())) + std::string(value);
  }

  gguf_builder& entry(std::string_view key, std::uint32_t kind, std::string const& value) {
    erase(key);
    entries_.push_back({std::string(key), text(key) + raw(kind) + value});
    return *this;
  }
  gguf_builder& u32(std::string_view key, std::uint32_t v) { return entry(key, 4, raw(v)); }
  gguf_builder& f32(std::string_view key, float v) { return entry(key, 6, raw(v)); }
  gguf_builder& string(std::string_view key, std::string_view v) { return entry(key, 8, text(v)); }
  gguf_builder& array(std::string_view key, std::uint32_t kind, std::uint64_t count,
                      std::string const& elements) {
    return entry(key, 9, raw(kind) + raw(count) + elements);
  }
  gguf_builder& erase(std::string_view key) {
    std::erase_if(entries_, [&](auto const& e) { return e.first == key; });
    return *this;
  }

  /// `dimensions` fastest first, as in the file. Without an offset, tensors follow each other.
  gguf_builder& tensor(std::string_view name, std::uint32_t type, std::vector<std::uint64_t> dimensions,
                       std::string data) {
    erase_tensor(name);
    tensors_.push_back({std::string(name), type, std::move(dimensions), std::move(data)});
    return *this;
  }
  gguf_builder& erase_tensor(std::string_view name) {
    std::erase_if(tensors_, [&](auto const& t) { return t.name == name; });
    return *this;
  }

  [[nodiscard]] std::string header() const {
    std::string out =
        "GGUF" + raw(version) + raw(std::uint64_t(tensors_.size())) + raw(std::uint64_t(entries_.size()));
    for (auto const& e : entries_) out += e.second;
    std::uint64_t offset = 0;
    for (auto const& t : tensors_) {
      out += text(t.name) + raw(std::uint32_t(t.dimensions.size()));
      for (auto const d : t.dimensions) out += raw(d);
      out += raw(t.type) + raw(offset);
      offset += padded(t.data.size());
    }
    return out;
  }
  [[nodiscard]] std::string build() const {
    std::string out = header();
    out.resize(padded(out.size()), '\0');
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      out += tensors_[i].data;
      if (i + 1 < tensors_.size())
        out.resize(out.size() + padded(tensors_[i].data.size()) - tensors_[i].data.size(), '\0');
    }
    return out;
  }

 private:
  struct item {
    std::string name;
    std::uint32_t type;
    std::vector<std::uint64_t> dimensions;
    std::string data;
  };
  [[nodiscard]] std::uint64_t padded(std::uint64_t n) const {
    return (n + alignment - 1) / alignment * alignment;
  }

  std::vector<std::pair<std::string, std::string>> entries_;
  std::vector<item> tensors_;
};

}  // namespace test
