#pragma once
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "accrete/train/records.hpp"

namespace accrete::inline v0::train {

/// Most resident memory this process has had, in bytes.
std::size_t peak_resident_bytes();

std::string duration_text(double seconds);

/// A line that is rewritten in place on a terminal, and printed now and then elsewhere.
class live_line {
 public:
  /// A piece of the line. Where the terminal is too narrow, those of the highest rank go first; 0 stays.
  struct piece {
    int rank;
    std::string text;
  };

  /// `every`: seconds between plain lines when the output is no terminal.
  explicit live_line(std::FILE* out = stderr, double every = 10)
      : out_(out), terminal_(isatty(fileno(out)) == 1), every_(every) {}

  /// Whether it is time for the next state; a first and a last one are shown in any case.
  [[nodiscard]] bool is_due() const {
    return std::chrono::duration<double>(clock::now() - shown_).count() >= (terminal_ ? 0.2 : every_);
  }
  void show(std::vector<piece> pieces, bool last);
  /// A line of its own, without tearing the one that is rewritten.
  void note(std::string const& text);

  /// Drops pieces until the line has at most `columns` characters; what cannot be dropped is cut.
  static void fit(std::vector<piece>& pieces, std::size_t columns);
  static std::string joined(std::vector<piece> const& pieces);

 private:
  using clock = std::chrono::steady_clock;
  [[nodiscard]] std::size_t columns() const;
  std::FILE* out_;
  bool terminal_;
  double every_;
  clock::time_point shown_{};
  bool open_ = false;  // a line without its end stands there
};

/// Tells how a run goes: step, losses, speed, memory, time left.
class progress_line {
 public:
  explicit progress_line(std::string title, index_t total_steps, std::FILE* out = stderr, double every = 10)
      : title_(std::move(title)), total_(total_steps), line_(out, every) {}

  void show(step_record const& r);
  /// A line of its own, without tearing the progress line.
  void note(std::string const& text) { line_.note(text); }

 private:
  std::string title_;
  index_t total_;
  live_line line_;
  double seconds_ = 0;
  double elapsed_ = 0;
};

/// Tells how far something is that goes through a known number of tokens: a teacher on a text.
class token_count_line {
 public:
  explicit token_count_line(std::string title, std::FILE* out = stderr, double every = 10)
      : title_(std::move(title)), line_(out, every) {}

  /// `done` of `all`; 0 begins anew.
  void show(index_t done, index_t all);

 private:
  using clock = std::chrono::steady_clock;
  std::string title_;
  live_line line_;
  clock::time_point started_ = clock::now();
};

}  // namespace accrete::inline v0::train

#if !defined(ACCRETE_COMPILED)
#include "accrete/train/detail/progress_body.hpp"
#endif
