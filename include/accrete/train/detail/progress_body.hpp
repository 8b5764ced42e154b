#pragma once
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "accrete/core/config.hpp"
#include "accrete/core/format.hpp"
#include "accrete/train/progress.hpp"
#include "accrete/train/records.hpp"

namespace accrete::inline v0::train {

ACCRETE_INLINE std::size_t peak_resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return std::size_t(usage.ru_maxrss) * 1024;
}

ACCRETE_INLINE std::string duration_text(double seconds) {
  auto const s = long(seconds + 0.5);
  if (s < 60) return fmt::format("{}s", s);
  if (s < 3600) return fmt::format("{}m{:02}s", s / 60, s % 60);
  return fmt::format("{}h{:02}m", s / 3600, s / 60 % 60);
}

ACCRETE_INLINE void live_line::show(std::vector<piece> pieces, bool last) {
  shown_ = clock::now();
  if (terminal_) fit(pieces, columns());
  fmt::print(out_, "{}{}{}", terminal_ ? "\r\x1b[2K" : "", joined(pieces), !terminal_ || last ? "\n" : "");
  std::fflush(out_);
  open_ = terminal_ && !last;
}

ACCRETE_INLINE void live_line::note(std::string const& text) {
  fmt::print(out_, "{}{}\n", open_ ? "\n" : "", text);
  std::fflush(out_);
  open_ = false;
}

ACCRETE_INLINE void live_line::fit(std::vector<piece>& pieces, std::size_t columns) {
  while (joined(pieces).size() > columns) {
    auto const least = std::max_element(pieces.begin(), pieces.end(),
                                        [](piece const& a, piece const& b) { return a.rank < b.rank; });
    if (least->rank == 0) {
      pieces = {{0, joined(pieces).substr(0, columns)}};
      return;
    }
    pieces.erase(least);
  }
}

ACCRETE_INLINE std::string live_line::joined(std::vector<piece> const& pieces) {
  std::string line;
  for (auto const& p : pieces) {
    if (!line.empty()) line += p.text.starts_with('(') ? " " : "  ";
    line += p.text;
  }
  return line;
}

ACCRETE_INLINE std::size_t live_line::columns() const {
  winsize size{};
  return ioctl(fileno(out_), TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col - 1u : 79u;
}

ACCRETE_INLINE void progress_line::show(step_record const& r) {
  double const weight = seconds_ == 0 ? 1.0 : 0.1;  // smoothed: a single step is noisy
  seconds_ += weight * (r.seconds - seconds_);
  elapsed_ += r.seconds;
  bool const last = r.step == total_;
  if (!last && r.step != 1 && !line_.is_due()) return;
  line_.show(
      {{0, title_},
       {0, fmt::format("step {}/{}", r.step, total_)},
       {5, fmt::format("layers {}", r.active_layers)},
       {0, fmt::format("loss {:.3f}", r.loss)},
       {4, fmt::format("(kd {:.3f} ce {:.3f})", r.kd, r.ce)},
       {6, fmt::format("grad {:.2f}", r.gradient_norm)},
       {7, fmt::format("lr {:.1e}", r.learning_rate)},
       {1, fmt::format("{:.0f} tok/s", double(r.tokens) / r.seconds)},
       {2, fmt::format("{:.0f} GFLOP/s", r.operations / r.seconds * 1e-9)},
       {3, fmt::format("{:.1f} GiB", double(peak_resident_bytes()) / double(1 << 30))},
       {0, last ? duration_text(elapsed_) : "left " + duration_text(seconds_ * double(total_ - r.step))}},
      last);
}

ACCRETE_INLINE void token_count_line::show(index_t done, index_t all) {
  if (done == 0) started_ = clock::now();
  double const seconds = std::chrono::duration<double>(clock::now() - started_).count();
  if (done == all)
    return line_.show({{0, title_}, {0, fmt::format("{} tokens in {}", all, duration_text(seconds))}}, true);
  if (done != 0 && !line_.is_due()) return;
  std::vector<live_line::piece> pieces{{0, title_}, {0, fmt::format("{} of {} tokens", done, all)}};
  if (done != 0 && seconds > 0) {
    double const rate = double(done) / seconds;
    pieces.push_back({1, fmt::format("{:.0f} tok/s", rate)});
    pieces.push_back({0, "left " + duration_text(double(all - done) / rate)});
  }
  line_.show(std::move(pieces), false);
}

}  // namespace accrete::inline v0::train
