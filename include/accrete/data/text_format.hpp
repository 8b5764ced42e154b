#pragma once
#include <cstddef>
#include <string>

namespace accrete::inline v0::data {

/// How text is taken out of files.
struct text_format {
  std::string field = "text";                         ///< of a line of JSON
  std::size_t max_text_bytes = std::size_t(1) << 30;  ///< of one text, or one line: what memory is asked for
};

}  // namespace accrete::inline v0::data
