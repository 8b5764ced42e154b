#pragma once
#include <array>
#include <atomic>
#include <csignal>
#include <semaphore>
#include <thread>

namespace accrete::inline v0::train {

/// While one is alive, SIGINT, SIGTERM and, unless it is ignored (nohup), SIGHUP set a flag that a run reads
/// after each step: Ctrl-C, a scheduler's word and a terminal that is gone end it in order. A second one of its
/// kind ends the process at once, in the usual way. The previous handlers come back at the end.
///
/// The signals are taken by a thread that does nothing else; the thread that makes this one and those it starts
/// from then on have them blocked. So make it before the first parallel region: a handler's frame on a thread
/// that computes may damage the heap, as oneDNN before 3.12 turns the stack pointer to memory of its own in some
/// products of f32 (uxlfoundation/oneDNN, issue 4845).
class stop_signal {
 public:
  stop_signal() {
    raised = 0;
    sigset_t const all = all_signals();
    ::pthread_sigmask(SIG_BLOCK, &all, &mask_before_);
    for (std::size_t i = 0; i < signals.size(); ++i) handlers_before_[i] = std::signal(signals[i], &handle);
    if (handlers_before_.back() == SIG_IGN) std::signal(signals.back(), SIG_IGN);
    taker_ = std::thread([this, all] {
      ::pthread_sigmask(SIG_UNBLOCK, &all, nullptr);
      over_.acquire();
    });
  }
  stop_signal(stop_signal const&) = delete;
  stop_signal& operator=(stop_signal const&) = delete;
  ~stop_signal() {
    over_.release();
    taker_.join();
    for (std::size_t i = 0; i < signals.size(); ++i) std::signal(signals[i], handlers_before_[i]);
    ::pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
  }
  [[nodiscard]] static bool stop_wanted() { return number() != 0; }
  /// The signal's number, 0 if none came.
  [[nodiscard]] static int number() { return raised.load(); }

 private:
  static constexpr std::array<int, 3> signals{SIGINT, SIGTERM, SIGHUP};  // the one that may be ignored stands last

  static sigset_t all_signals() {
    sigset_t set;
    sigemptyset(&set);
    for (int const s : signals) sigaddset(&set, s);
    return set;
  }
  static void handle(int signal) {
    raised.store(signal);
    std::signal(signal, SIG_DFL);
  }
  inline static std::atomic<int> raised = 0;
  static_assert(std::atomic<int>::is_always_lock_free, "a handler may touch nothing else");

  std::array<void (*)(int), signals.size()> handlers_before_{};
  sigset_t mask_before_{};
  std::binary_semaphore over_{0};
  std::thread taker_;
};

}  // namespace accrete::inline v0::train
