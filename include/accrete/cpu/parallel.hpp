#pragma once
#include <exception>

#if defined(_OPENMP)
#include <omp.h>
#endif

#include "accrete/core/view.hpp"

/// How the operations of this folder share work among threads. Everything is cut into numbered parts whose
/// borders do not depend on which thread runs them, so that results repeat.
namespace accrete::inline v0::cpu {

/// A run of neighbouring items, [first, last).
struct range {
  index_t first = 0;
  index_t last = 0;
  [[nodiscard]] constexpr index_t size() const { return last - first; }
};

namespace detail {

/// The threads that OpenMP gives by default, 1 without OpenMP.
inline int available_threads() {
#if defined(_OPENMP)
  return omp_get_max_threads();
#else
  return 1;
#endif
}

/// While it lives, parallel regions opened by this thread (a library's among them) get `threads` threads. OpenMP
/// holds that number per task, so no other thread sees the change.
class thread_scope {
 public:
  explicit thread_scope(int threads) : before_(available_threads()) { set(threads); }
  ~thread_scope() { set(before_); }
  thread_scope(thread_scope const&) = delete;
  thread_scope& operator=(thread_scope const&) = delete;

 private:
  static void set([[maybe_unused]] int threads) {
#if defined(_OPENMP)
    omp_set_num_threads(threads);
#endif
  }
  int before_;
};

/// The `part`-th of `parts` nearly equal ranges of `count` items, borders at multiples of `grain`.
constexpr range part_of(index_t count, index_t part, index_t parts, index_t grain = 1) {
  index_t const grains = (count + grain - 1) / grain;
  index_t const first = grains * part / parts * grain;
  index_t const last = grains * (part + 1) / parts * grain;
  return {first < count ? first : count, last < count ? last : count};
}

}  // namespace detail

/// Calls body(part) for every part in [0, parts), part p on thread p mod threads. The first exception of a part
/// (exceptions must not cross an OpenMP region) is thrown again when all are done.
template <class Body>
void for_parts(int threads, index_t parts, Body const& body) {
  if (parts <= 0) return;
  std::exception_ptr failure;
#pragma omp parallel for schedule(static, 1) num_threads(threads)
  for (index_t part = 0; part < parts; ++part) {
    detail::thread_scope const alone(1);
    try {
      body(part);
    } catch (...) {
#pragma omp critical(accrete_cpu_failure)
      if (!failure) failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

/// Calls body(task) for every task, each by whichever thread comes free first: for tasks of unequal cost that
/// write to places of their own. `body` gets (task, thread), thread in [0, threads) for its scratch.
template <class Body>
void for_tasks(int threads, index_t tasks, Body const& body) {
  if (tasks <= 0) return;
  std::exception_ptr failure;
  index_t next = 0;
#pragma omp parallel for schedule(static, 1) num_threads(threads)
  for (int thread = 0; thread < threads; ++thread) {
    detail::thread_scope const alone(1);
    try {
      for (;;) {
        index_t task;
#pragma omp atomic capture
        task = next++;
        if (task >= tasks) break;
        body(task, thread);
      }
    } catch (...) {
#pragma omp critical(accrete_cpu_failure)
      if (!failure) failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

/// Calls body(range) over [0, count) cut in one range per thread; on the calling thread alone when `count`
/// items of `elements` each are less work than waking the others.
template <class Body>
void for_ranges(int threads, index_t count, index_t elements, Body const& body) {
  constexpr index_t worth_a_thread = 16384;  // elements: some 5 us of streaming
  index_t const useful = count * elements / worth_a_thread + 1;
  index_t parts = threads < useful ? threads : useful;
  if (parts > count) parts = count;
  if (parts <= 1) {
    if (count > 0) body(range{0, count});
    return;
  }
  for_parts(int(parts), parts, [&](index_t part) { body(detail::part_of(count, part, parts)); });
}

}  // namespace accrete::inline v0::cpu
