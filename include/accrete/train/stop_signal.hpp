#pragma once
#include <csignal>

namespace accrete::inline v0::train {

/// While one is alive, SIGINT, SIGTERM and, unless it is ignored (nohup), SIGHUP set a flag that a run reads
/// after each step: Ctrl-C, a scheduler's word and a terminal that is gone end it in order. A second one of its
/// kind ends the process at once, in the usual way. The previous handlers come back at the end.
class stop_signal {
 public:
  stop_signal()
      : before_int_(std::signal(SIGINT, &stop_signal::handle)),
        before_term_(std::signal(SIGTERM, &stop_signal::handle)),
        before_hup_(std::signal(SIGHUP, &stop_signal::handle)) {
    if (before_hup_ == SIG_IGN) std::signal(SIGHUP, SIG_IGN);
    raised = 0;
  }
  stop_signal(stop_signal const&) = delete;
  stop_signal& operator=(stop_signal const&) = delete;
  ~stop_signal() {
    std::signal(SIGINT, before_int_);
    std::signal(SIGTERM, before_term_);
    std::signal(SIGHUP, before_hup_);
  }
  [[nodiscard]] static bool stop_wanted() { return raised != 0; }
  /// The signal's number, 0 if none came.
  [[nodiscard]] static int number() { return int(raised); }

 private:
  static void handle(int signal) {
    raised = signal;
    std::signal(signal, SIG_DFL);
  }
  inline static volatile std::sig_atomic_t raised = 0;
  void (*before_int_)(int);
  void (*before_term_)(int);
  void (*before_hup_)(int);
};

}  // namespace accrete::inline v0::train
