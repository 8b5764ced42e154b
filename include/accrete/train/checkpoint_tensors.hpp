#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "accrete/core/view.hpp"
#include "accrete/io/content_hash.hpp"
#include "accrete/io/safetensors.hpp"
#include "accrete/io/safetensors_dtype.hpp"
#include "accrete/model/parameter.hpp"

namespace accrete::inline v0::train {

/// What training knows of a model's weights, in its own order; the frozen embedding is the teacher's and not
/// among them.
template <backend B>
using parameter_list = std::vector<model::parameter<B>*>;
template <class Model>
parameter_list<typename Model::backend_type> parameters_of(Model& m) {
  parameter_list<typename Model::backend_type> all;
  m.parameters([&](auto& p) { all.push_back(&p); });
  return all;
}

namespace detail {

inline constexpr char const* checkpoint_format = "accrete checkpoint 1";
/// Tensors of rows of doubles; all others are of parameters.
inline constexpr char const* steps_tensor = "records.steps";
inline constexpr char const* evaluations_tensor = "records.evaluations";

/// Calls `use(name, numbers)` for everything of a parameter that is kept: the values of each of its named
/// parts, and their moments where it trains. // numbers [rows, columns]
template <class Parameter, class Use>
void for_each_tensor(Parameter& p, Use&& use) {
  for (auto const& part : p.parts) {
    auto const rows_of = [&](auto& whole) { return whole.view().slice(part.first, part.rows); };
    use(part.name, rows_of(p.value));
    if (!p.trainable()) continue;
    use(part.name + ".exp_avg", rows_of(p.moment1));
    use(part.name + ".exp_avg_sq", rows_of(p.moment2));
  }
}

/// The same as a file has them: vectors are [n], matrices [rows, columns].
template <backend B>
void append_tensors(std::vector<io::safetensors_tensor>& all, model::parameter<B> const& p) {
  static_assert(std::is_same_v<typename B::space, mem::host>,
                "[accrete] checkpoint: the student must be on a backend of host memory");
  for_each_tensor(p, [&]<class T>(std::string const& name, view<T const, 2> numbers) {
    static_assert(std::is_same_v<T, float> || std::is_same_v<T, double>,
                  "[accrete] checkpoint: the backend's numbers must be 'float' or 'double'");
    std::vector<index_t> shape{numbers.rows(), numbers.columns()};
    if (model::is_vector(p.role)) shape = {numbers.size()};
    all.push_back({name, io::dtype_of<T>(), std::move(shape),
                   std::as_bytes(std::span(numbers.data, std::size_t(numbers.size())))});
  });
}

/// One hash over everything a checkpoint says: its metadata but the hash itself, and its tensors, by name.
template <class Metadata>
std::string checksum(Metadata const& metadata, std::vector<io::safetensors_tensor> const& by_name) {
  io::content_hash hash;
  for (auto const& [key, value] : metadata)
    if (key != "checksum") hash.update(key.size()).update(key).update(value.size()).update(value);
  for (auto const& t : by_name) {
    hash.update(t.name.size()).update(t.name).update(std::uint64_t(t.dtype)).update(t.shape.size());
    for (index_t n : t.shape) hash.update(std::uint64_t(n));
    hash.update(t.bytes);
  }
  return hash.hex();
}

}  // namespace detail

}  // namespace accrete::inline v0::train
