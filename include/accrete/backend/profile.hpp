#pragma once
#include <chrono>
#include <cstddef>
#include <vector>

namespace accrete::inline v0 {

/// When each operation of a backend ran, and what it did: for tables and traces of where the time goes. A context
/// that is told of none, as by default, asks no clock.
class profile {
 public:
  using clock = std::chrono::steady_clock;
  struct event {
    char const* name;   ///< lives as long as the program
    double begin, end;  ///< seconds since the profile was made
    double operations;  ///< of floating point, where they are what takes the time; else 0
    double bytes;       ///< read and written
    bool whole;         ///< a stretch of operations: the forward, say
  };

  /// Room for so many events; what comes after them is counted, and not kept.
  explicit profile(std::size_t most = std::size_t(1) << 20) { events_.reserve(most); }

  void add(char const* name, clock::time_point begin, double operations, double bytes, bool whole) {
    if (events_.size() == events_.capacity()) {
      ++dropped_;
      return;
    }
    events_.push_back({name, since_start(begin), since_start(clock::now()), operations, bytes, whole});
  }
  void clear() {
    events_.clear();
    dropped_ = 0;
  }
  [[nodiscard]] std::vector<event> const& events() const { return events_; }
  /// From the first event's begin to the last one's end.
  [[nodiscard]] double seconds() const {
    double first = 0, last = 0;
    for (auto const& e : events_) {
      if (&e == events_.data() || e.begin < first) first = e.begin;
      if (e.end > last) last = e.end;
    }
    return last - first;
  }
  [[nodiscard]] std::size_t dropped() const { return dropped_; }

 private:
  [[nodiscard]] double since_start(clock::time_point t) const {
    return std::chrono::duration<double>(t - start_).count();
  }
  clock::time_point start_ = clock::now();
  std::vector<event> events_;
  std::size_t dropped_ = 0;
};

/// One operation, or a stretch of them, while it lasts; nothing without a profile.
class timed_operation {
 public:
  timed_operation(profile* into, char const* name, double operations, double bytes, bool whole = false)
      : into_(into), name_(name), operations_(operations), bytes_(bytes), whole_(whole) {
    if (into_ != nullptr) begin_ = profile::clock::now();
  }
  ~timed_operation() {
    if (into_ != nullptr) into_->add(name_, begin_, operations_, bytes_, whole_);
  }
  timed_operation(timed_operation const&) = delete;
  timed_operation& operator=(timed_operation const&) = delete;

 private:
  profile* into_;
  char const* name_;
  double operations_, bytes_;
  bool whole_;
  profile::clock::time_point begin_;
};

/// A stretch of a context's operations, where the backend notes them.
template <class Context>
auto stretch(Context const& ctx, [[maybe_unused]] char const* name) {
  if constexpr (requires { ctx.profiled(); })
    return timed_operation(ctx.profiled(), name, 0, 0, true);
  else
    return timed_operation(nullptr, name, 0, 0, true);
}

}  // namespace accrete::inline v0
