#pragma once
#include <stdexcept>
#include <string>

namespace accrete::inline v0 {

/// Base of everything the library throws. The text is one line in four parts: where it happened, what was
/// got, what was expected, what to do: `data::open: got 0 documents in 'notes/', expected at least 1 (give a
/// folder that holds .txt or .jsonl files)`.
struct error : std::runtime_error {
  using std::runtime_error::runtime_error;
  error(std::string const& where, std::string const& got, std::string const& expected,
        std::string const& hint = {})
      : std::runtime_error(where + ": got " + got + ", expected " + expected +
                           (hint.empty() ? std::string{} : " (" + hint + ")")) {}
};

/// A value the user chose that cannot work: a flag, a recipe, a plan.
struct config_error : error {
  using error::error;
};
/// Two tensors, or a tensor and a model, that do not fit each other.
struct shape_error : error {
  using error::error;
};
/// A file that is missing, unreadable, truncated, or says something that is not true.
struct io_error : error {
  using error::error;
};
/// A loss or gradient that is not finite.
struct numeric_error : error {
  using error::error;
};

}  // namespace accrete::inline v0
