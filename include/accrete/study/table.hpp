#pragma once
#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace accrete::inline v0::study {

/// A table as text: columns of names are left-aligned, numbers right.
struct table {
  std::string name;   ///< "T1", for files
  std::string title;  ///< one line
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;
  std::vector<std::string> notes;
  std::size_t num_names = 1;  ///< columns of names, which come first
};

/// Characters on a terminal: UTF-8 continuation bytes do not count.
inline std::size_t width_of(std::string const& s) {
  return std::size_t(
      std::count_if(s.begin(), s.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

namespace detail {
inline std::vector<std::size_t> column_widths(table const& t) {
  std::vector<std::size_t> widths(t.header.size());
  auto widen = [&](std::vector<std::string> const& row) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = (std::max)(widths[i], width_of(row[i]));
  };
  widen(t.header);
  for (auto const& row : t.rows) widen(row);
  return widths;
}
inline std::string padded(std::string const& s, std::size_t width, bool left) {
  std::string const space(width - (std::min)(width, width_of(s)), ' ');
  return left ? s + space : space + s;
}
}  // namespace detail

inline std::string to_plain(table const& t) {
  auto const widths = detail::column_widths(t);
  std::string text = t.title + "\n";
  auto line = [&](std::vector<std::string> const& row) {
    std::string one = " ";
    for (std::size_t i = 0; i < row.size(); ++i)
      one += " " + detail::padded(row[i], widths[i], i < t.num_names) + " ";
    one.erase(one.find_last_not_of(' ') + 1);
    text += one + "\n";
  };
  line(t.header);
  std::size_t total = 0;
  for (auto w : widths) total += w + 2;
  text += "  " + std::string(total - 2, '-') + "\n";
  for (auto const& row : t.rows) line(row);
  for (auto const& note : t.notes) text += "  " + note + "\n";
  return text;
}

/// A field of a Markdown table: what would end it is escaped.
inline std::string field_text(std::string const& s) {
  std::string text;
  for (char c : s) text += c == '|' ? "\\|" : c == '\n' ? " " : std::string(1, c);
  return text;
}

inline std::string to_markdown(table const& t) {
  std::string text = "### " + t.title + "\n\n";
  auto line = [&](std::vector<std::string> const& row) {
    text += "|";
    for (auto const& field : row) text += " " + field_text(field) + " |";
    text += "\n";
  };
  line(t.header);
  text += "|";
  for (std::size_t i = 0; i < t.header.size(); ++i) text += i < t.num_names ? "---|" : "---:|";
  text += "\n";
  for (auto const& row : t.rows) line(row);
  for (auto const& note : t.notes) text += "\n" + note + "\n";
  return text + "\n";
}

}  // namespace accrete::inline v0::study
