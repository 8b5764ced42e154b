#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "accrete/core/error.hpp"
#include "accrete/data/byte_stream.hpp"
#include "accrete/data/text_format.hpp"
#include "accrete/data/utf8.hpp"
#include "accrete/io/json.hpp"
#include "accrete/io/message_text.hpp"

namespace accrete::inline v0::data {

/// Where a text begins: in which file of a list, at which byte of what is in it unpacked, in which line.
struct text_position {
  std::uint64_t file = 0, byte = 0, line = 1;
  friend bool operator==(text_position const&, text_position const&) = default;
};

/// One text as it stands in its file; `text_of` makes text of it.
struct raw_text {
  std::filesystem::path file;
  text_position begin;
  bool json = false;  ///< a line of JSON, not the text itself
  std::string bytes;

  /// Its file, with `:line` for a line of JSON.
  [[nodiscard]] std::string name() const {
    return file.string() + (json ? ":" + std::to_string(begin.line) : "");
  }
};

/// Whether each line of a file is a JSON object: .jsonl, .ndjson, also packed; .json only when packed, as large
/// corpora come.
[[nodiscard]] inline bool is_json_lines(std::filesystem::path const& path) {
  bool const packed = packing_of(path) != packing::none;
  auto extension = (packed ? path.stem() : path).extension().string();
  for (char& c : extension)
    if (c >= 'A' && c <= 'Z') c = char(c - 'A' + 'a');
  return extension == ".jsonl" || extension == ".ndjson" || (packed && extension == ".json");
}

/// The text of a raw one; blank where it holds none. Throws `io_error` that names file and line on what is no
/// text or has no such field.
[[nodiscard]] inline std::string text_of(raw_text&& raw, text_format const& format) {
  std::string const where = "data::read_text " + io::path_text(raw.file);
  if (raw.json) {
    std::string const here = where + ":" + std::to_string(raw.begin.line);
    auto const value = io::json::parse(raw.bytes, here);
    auto const* const text = value.find(format.field);
    auto const quoted = io::json_quote(format.field);
    if (text == nullptr)
      throw io_error(here, value.is_object() ? "no " + quoted : value.describe(), "an object with a " + quoted);
    return text->as_string(here + ", " + quoted);
  }
  std::string text = std::move(raw.bytes);
  auto const zero = text.find('\0');
  if (zero != std::string::npos)
    throw io_error(where, "a zero at byte " + std::to_string(zero), "text", "the file is binary: leave it out");
  auto const bad = find_invalid_utf8(text);
  if (bad != std::string_view::npos)
    throw io_error(where, "invalid UTF-8 at byte " + std::to_string(bad), "UTF-8 text",
                   "convert it with iconv or leave it out");
  if (text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);
  return text;
}

/// The texts of a list of files, one after the other: a line of JSON is one, any other file is one. One text is
/// in memory at a time.
class text_stream {
 public:
  text_stream(std::vector<std::filesystem::path> files, text_format format, text_position from = {})
      : files_(std::move(files)), format_(std::move(format)), at_(from) {}

  /// Whether there was another. Blank lines are passed over.
  [[nodiscard]] bool next(raw_text& out) {
    for (; at_.file < files_.size(); leave_file()) {
      if (!open_) enter_file();
      out.file = files_[std::size_t(at_.file)];
      out.json = json_;
      out.bytes.clear();
      if (!json_) {
        if (at_.byte > 0) continue;  // it has been read
        out.begin = at_;
        while (append_more(out.bytes)) {
        }
        at_.byte = out.bytes.size() + 1;
        return true;
      }
      while (next_line(out))
        if (out.bytes.find_first_not_of(" \t\r") != std::string::npos) return true;
    }
    return false;
  }

  /// Where the next text begins, or something blank before it.
  [[nodiscard]] text_position position() const { return at_; }
  /// Bytes of all files that have been read, packed ones as they are.
  [[nodiscard]] std::uint64_t consumed() const { return left_behind_ + (open_ ? open_->consumed() : 0); }
  [[nodiscard]] std::vector<std::filesystem::path> const& files() const { return files_; }

 private:
  static constexpr std::size_t piece = std::size_t(1) << 18;

  [[nodiscard]] std::string where() const {
    return "data::read_text " + io::path_text(files_[std::size_t(at_.file)]);
  }
  void enter_file() {
    auto const& file = files_[std::size_t(at_.file)];
    json_ = is_json_lines(file);
    open_ = std::make_unique<byte_stream>(file, where());
    if (json_) open_->skip(at_.byte);
    buffer_.resize(json_ ? piece : 0);
    first_ = last_ = 0;
  }
  void leave_file() {
    if (open_) left_behind_ += open_->consumed();
    open_.reset();
    at_ = {at_.file + 1, 0, 1};
  }
  void require_room(std::size_t size) const {
    if (size > format_.max_text_bytes)
      throw io_error(where() + (json_ ? ":" + std::to_string(at_.line) : ""),
                     "a text of more than " + io::bytes_text(format_.max_text_bytes), "a shorter one",
                     "a text is in memory whole: give many as lines of JSON");
  }
  [[nodiscard]] bool append_more(std::string& text) {
    auto const size = text.size();
    text.resize(size + piece);
    auto const n = open_->read({text.data() + size, piece});
    text.resize(size + n);
    require_room(text.size());
    return n == piece;
  }
  // A line without its end, and `at_` moves behind it.
  [[nodiscard]] bool next_line(raw_text& out) {
    out.bytes.clear();
    out.begin = at_;
    for (;;) {
      if (first_ == last_) {
        first_ = 0;
        last_ = open_->read(buffer_);
        if (last_ == 0) {
          at_.byte += out.bytes.size();
          drop_mark(out);
          return !out.bytes.empty();
        }
      }
      char const* const begin = buffer_.data() + first_;
      auto const* const end = static_cast<char const*>(std::memchr(begin, '\n', last_ - first_));
      auto const n = end == nullptr ? last_ - first_ : std::size_t(end - begin);
      out.bytes.append(begin, n);
      require_room(out.bytes.size());
      first_ += n;
      if (end == nullptr) continue;
      ++first_;
      at_.byte += out.bytes.size() + 1;
      ++at_.line;
      drop_mark(out);
      return true;
    }
  }
  static void drop_mark(raw_text& out) {
    if (out.begin.byte == 0 && out.bytes.starts_with("\xEF\xBB\xBF")) out.bytes.erase(0, 3);
  }

  std::vector<std::filesystem::path> files_;
  text_format format_;
  text_position at_;
  std::unique_ptr<byte_stream> open_;
  bool json_ = false;
  std::vector<char> buffer_;
  std::size_t first_ = 0, last_ = 0;
  std::uint64_t left_behind_ = 0;
};

}  // namespace accrete::inline v0::data
