#pragma once
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "accrete/core/error.hpp"
#include "accrete/io/json.hpp"
#include "accrete/io/mapped_file.hpp"
#include "accrete/io/message_text.hpp"
#include "accrete/io/placed_json.hpp"

/// What the readers of a tokenizer's JSON files have in common: opening one, and refusing by name what the
/// library does not have. Each throws io_error.
namespace accrete::inline v0::data::detail {

inline constexpr char const* not_supported = "this tokenizer needs what the library does not have";

/// How messages name such a file.
[[nodiscard]] inline std::string tokenizer_file_name(std::filesystem::path const& path) {
  return "data::tokenizer " + io::path_text(path);
}
[[nodiscard]] inline io::json read_json(std::filesystem::path const& path) {
  io::mapped_file const map(path);
  return io::json::parse(map.text(), tokenizer_file_name(path));
}
/// A file beside another; nothing where there is none.
[[nodiscard]] inline std::optional<io::json> read_json_beside(std::filesystem::path const& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return std::nullopt;
  return read_json(path);
}

/// A number that is a token's id.
[[nodiscard]] inline std::int32_t token_id(io::placed_json const& v) {
  auto const n = v.as_index();
  if (n >= (std::numeric_limits<std::int32_t>::max)())
    throw io_error(v.where, std::to_string(n), "an id below 2^31");
  return std::int32_t(n);
}

/// What a part of tokenizer.json says it is: "Sequence", "ByteLevel".
[[nodiscard]] inline std::string kind_of(io::placed_json const& part) {
  auto const* const type = part.value.find("type");
  return type != nullptr && type->is_string() ? type->as_string(part.where) : "tokenizer";
}
[[noreturn]] inline void refuse(io::placed_json const& part, std::string const& expected) {
  throw io_error(part.where, part.value.is_object() ? io::name_text(kind_of(part)) : part.value.describe(),
                 expected, not_supported);
}
/// Everything that the file says in this part is among what is known.
inline void require_only(io::placed_json const& part, std::initializer_list<std::string_view> known) {
  for (auto const& item : part.value.items()) {
    bool found = item.is_null();
    for (auto const k : known) found = found || item.key() == k;
    if (!found)
      throw io_error(part.where, io::name_text(item.key()),
                     "only what is known of a " + io::name_text(kind_of(part)), not_supported);
  }
}

}  // namespace accrete::inline v0::data::detail
