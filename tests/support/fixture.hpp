#pragma once
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "accrete/core/view.hpp"
#include "accrete/data/ragged_batch.hpp"
#include "accrete/io/safetensors.hpp"

/// Numbers of PyTorch and `transformers`, which tests/reference/make_fixtures.py writes.
namespace test {

/// tests/reference/fixtures, or the folder of freshly made ones that $ACCRETE_FIXTURES names.
inline std::filesystem::path fixture_folder() {
  char const* chosen = std::getenv("ACCRETE_FIXTURES");
  if (chosen != nullptr && *chosen != '\0') return chosen;
  return std::filesystem::path(__FILE__).parent_path() / ".." / "reference" / "fixtures";
}

class fixture {
 public:
  explicit fixture(std::string const& name) : file_(fixture_folder() / (name + ".safetensors")) {}

  /// A tensor of F64 or F32, row after row.
  [[nodiscard]] std::vector<double> numbers(std::string_view name) const {
    auto const& t = file_.tensor(name);
    return t.dtype == accrete::io::safetensors_dtype::f32 ? all<float>(t) : all<double>(t);
  }
  [[nodiscard]] double number(std::string_view name) const { return numbers(name).at(0); }
  /// What the metadata says of `key`.
  [[nodiscard]] double fact(std::string_view key) const { return std::stod(text(key)); }
  [[nodiscard]] std::string text(std::string_view key) const {
    auto const at = file_.metadata().find(key);
    if (at == file_.metadata().end())
      throw std::runtime_error("test::fixture: got no '" + std::string(key) + "' in " + file_.path().string());
    return at->second;
  }
  /// Names of the tensors that begin with `prefix`, without it.
  [[nodiscard]] std::vector<std::string> names(std::string_view prefix) const {
    std::vector<std::string> found;
    for (auto const& t : file_.tensors())
      if (t.name.starts_with(prefix)) found.push_back(t.name.substr(prefix.size()));
    return found;
  }
  /// `what`.tokens, cut at `what`.offsets.
  [[nodiscard]] std::vector<std::vector<std::int32_t>> documents(std::string const& what) const {
    auto const tokens = all<std::int32_t>(file_.tensor(what + ".tokens"));
    auto const offsets = all<std::int64_t>(file_.tensor(what + ".offsets"));
    std::vector<std::vector<std::int32_t>> cut;
    for (std::size_t d = 0; d + 1 < offsets.size(); ++d) {
      std::vector<std::int32_t> document;
      for (auto i = std::size_t(offsets[d]); i < std::size_t(offsets[d + 1]); ++i)
        document.push_back(std::int32_t(tokens.at(i)));
      cut.push_back(document);
    }
    return cut;
  }
  [[nodiscard]] accrete::data::ragged_batch batch() const {
    accrete::data::ragged_batch b;
    for (auto const& d : documents("batch")) b.append(d);
    return b;
  }

 private:
  template <class T>
  static std::vector<double> all(accrete::io::safetensors_tensor const& t) {
    if (t.dtype != dtype_of<T>())
      throw std::runtime_error("test::fixture: got " + accrete::io::name_of(t.dtype) + " of " + t.name);
    std::vector<double> values;
    for (std::size_t at = 0; at < t.bytes.size(); at += sizeof(T))
      values.push_back(double(accrete::io::load<T>(t.bytes.data() + at)));
    return values;
  }
  template <class T>
  static constexpr accrete::io::safetensors_dtype dtype_of() {
    using enum accrete::io::safetensors_dtype;
    if constexpr (std::is_same_v<T, float>) return f32;
    if constexpr (std::is_same_v<T, double>) return f64;
    if constexpr (std::is_same_v<T, std::int32_t>) return i32;
    if constexpr (std::is_same_v<T, std::int64_t>) return i64;
  }

  accrete::io::safetensors_file file_;
};

/// |got - expected| / |expected|; infinite where sizes differ or something is not finite.
inline double distance(std::vector<double> const& got, std::vector<double> const& expected) {
  double off = 0, size = 0;
  for (std::size_t i = 0; i < got.size() && i < expected.size(); ++i) {
    off += (got[i] - expected[i]) * (got[i] - expected[i]);
    size += expected[i] * expected[i];
  }
  double const ratio = std::sqrt(off) / std::sqrt(size);
  return got.size() == expected.size() && std::isfinite(ratio) ? ratio : HUGE_VAL;
}
template <class T, class Space>
double distance(accrete::view<T, 2, Space> got, std::vector<double> const& expected) {
  std::vector<double> values;
  for (accrete::index_t i = 0; i < got.rows(); ++i)
    for (accrete::index_t j = 0; j < got.columns(); ++j) values.push_back(double(got(i, j)));
  return distance(values, expected);
}

/// How far a scalar's computation may be from PyTorch's in double.
template <class Scalar>
inline constexpr double fixture_tolerance = std::is_same_v<Scalar, float> ? 1e-5 : 1e-9;

}  // namespace test
