#pragma once
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>

#include "accrete/train/records.hpp"

namespace accrete::inline v0::train {

/// Most resident memory this process has had, in bytes.
inline std::size_t peak_resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return std::size_t(usage.ru_maxrss) * 1024;
}

inline std::string duration_text(double seconds) {
  auto const s = long(seconds + 0.5);
  if (s < 60) return fmt::format("{}s", s);
  if (s < 3600) return fmt::format("{}m{:02}s", s / 60, s % 60);
  return fmt::format("{}h{:02}m", s / 3600, s / 60 % 60);
}

/// One line that tells how a run goes: rewritten in place on a terminal, printed now and then elsewhere.
class progress_line {
 public:
  /// `every`: seconds between plain lines when the output is no terminal.
  explicit progress_line(std::string title, index_t total_steps, std::FILE* out = stderr, double every = 10)
      : title_(std::move(title)),
        total_(total_steps),
        out_(out),
        terminal_(isatty(fileno(out)) == 1),
        every_(every) {}

  void show(step_record const& r) {
    double const weight = seconds_ == 0 ? 1.0 : 0.1;  // smoothed: a single step is noisy
    seconds_ += weight * (r.seconds - seconds_);
    elapsed_ += r.seconds;
    bool const last = r.step == total_;
    auto const now = clock::now();
    double const since = std::chrono::duration<double>(now - shown_).count();
    if (!last && r.step != 1 && since < (terminal_ ? 0.2 : every_)) return;
    shown_ = now;
    auto line = fmt::format(
        "{}  step {}/{}  layers {}  loss {:.3f} (kd {:.3f} ce {:.3f})  grad {:.2f}  lr {:.1e}  {:.0f} tok/s  "
        "{:.0f} GFLOP/s  "
        "{:.1f} GiB  {}",
        title_, r.step, total_, r.active_layers, r.loss, r.kd, r.ce, r.gradient_norm, r.learning_rate,
        double(r.tokens) / r.seconds, r.operations / r.seconds * 1e-9,
        double(peak_resident_bytes()) / double(1 << 30),
        last ? duration_text(elapsed_) : "left " + duration_text(seconds_ * double(total_ - r.step)));
    if (terminal_) line.resize(std::min(line.size(), columns()));  // a line that wraps can't be rewritten
    fmt::print(out_, "{}{}{}", terminal_ ? "\r\x1b[2K" : "", line, terminal_ ? "" : "\n");
    if (terminal_ && last) fmt::print(out_, "\n");
    std::fflush(out_);
    open_ = terminal_ && !last;
  }
  /// A line of its own, without tearing the progress line.
  void note(std::string const& text) {
    fmt::print(out_, "{}{}\n", open_ ? "\n" : "", text);
    std::fflush(out_);
    open_ = false;
  }

 private:
  using clock = std::chrono::steady_clock;
  [[nodiscard]] std::size_t columns() const {
    winsize size{};
    return ioctl(fileno(out_), TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col - 1u : 79u;
  }
  std::string title_;
  index_t total_;
  std::FILE* out_;
  bool terminal_;
  double every_;
  clock::time_point shown_{};
  double seconds_ = 0;
  double elapsed_ = 0;
  bool open_ = false;
};

}  // namespace accrete::inline v0::train
