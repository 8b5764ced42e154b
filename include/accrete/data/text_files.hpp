#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "accrete/core/error.hpp"
#include "accrete/core/view.hpp"
#include "accrete/data/text_stream.hpp"
#include "accrete/io/message_text.hpp"

namespace accrete::inline v0::data {

/// Files of other kinds inside of a folder are passed over; `.rst.txt` ends in `.txt`. Each may be packed as
/// .gz or .zst. All are taken as they stand, markup included: the teacher has read such text as well.
inline constexpr std::array<std::string_view, 5> text_extensions{".txt", ".md", ".rst", ".pod", ".jsonl"};

struct document_text {
  std::string name;  ///< its file, with `:line` for a line of a .jsonl file
  std::string text;
};

namespace detail {
/// The extension in lower case, with that of a packed file left out.
inline std::string text_extension(std::filesystem::path const& path) {
  std::string extension = (packing_of(path) == packing::none ? path : path.stem()).extension().string();
  for (char& c : extension)
    if (c >= 'A' && c <= 'Z') c = char(c - 'A' + 'a');
  return extension;
}

inline bool is_text_file(std::filesystem::path const& path) {
  auto const extension = text_extension(path);
  return is_json_lines(path) ||
         std::find(text_extensions.begin(), text_extensions.end(), extension) != text_extensions.end();
}

inline bool blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n") == std::string_view::npos;
}
}  // namespace detail

/// The files that `paths` stand for, in the order given: a file is itself, a folder all files below it with one
/// of `text_extensions`, sorted by path. Throws `io_error` on a path that is missing, no plain file or a folder
/// without such a file.
inline std::vector<std::filesystem::path> find_text_files(std::span<std::filesystem::path const> paths) {
  namespace fs = std::filesystem;
  std::vector<fs::path> files;
  for (fs::path const& path : paths) {
    std::string const where = "data::read_text " + io::path_text(path);
    std::error_code failed;
    auto const kind = fs::status(path, failed).type();
    if (kind == fs::file_type::not_found)
      throw io_error(where, "nothing there", "a file or a folder", "check the path");
    if (kind == fs::file_type::regular) {
      files.push_back(path);
      continue;
    }
    if (kind != fs::file_type::directory)
      throw io_error(where, failed ? "'" + failed.message() + "'" : "a special file", "a file or a folder");
    auto const before = files.size();
    for (fs::recursive_directory_iterator at(path, failed), end; !failed && at != end; at.increment(failed)) {
      std::error_code unknown;  // a link to nowhere is no regular file
      if (detail::is_text_file(at->path()) && at->is_regular_file(unknown)) files.push_back(at->path());
    }
    if (failed) throw io_error(where, "'" + failed.message() + "'", "a folder that can be read to its end");
    if (files.size() == before) {
      std::string known;
      for (auto const extension : text_extensions) known += (known.empty() ? "" : " ") + std::string(extension);
      throw io_error(where, "a folder without text", "a file that ends in one of " + known,
                     "name a file of another kind itself");
    }
    std::sort(files.begin() + index_t(before), files.end());
  }
  return files;
}

/// Calls `visit(document_text)` for every text below `paths` and returns how many were empty or blank and so
/// passed over. One text is in memory at a time. Throws `io_error`, also on binary files and invalid UTF-8.
template <class Visit>
index_t for_each_text(std::span<std::filesystem::path const> paths, Visit&& visit,
                      text_format const& format = {}) {
  index_t num_empty = 0;
  text_stream texts(find_text_files(paths), format);
  raw_text raw;
  while (texts.next(raw)) {
    std::string name = raw.name();
    std::string text = text_of(std::move(raw), format);
    if (detail::blank(text))
      ++num_empty;
    else
      visit(document_text{std::move(name), std::move(text)});
  }
  return num_empty;
}

/// All texts below some paths.
struct text_set {
  std::vector<document_text> documents;
  index_t num_empty = 0;
};
inline text_set read_text(std::span<std::filesystem::path const> paths) {
  text_set all;
  all.num_empty = for_each_text(paths, [&](document_text d) { all.documents.push_back(std::move(d)); });
  return all;
}
inline text_set read_text(std::filesystem::path const& path) {
  return read_text(std::span(&path, 1));
}

}  // namespace accrete::inline v0::data
