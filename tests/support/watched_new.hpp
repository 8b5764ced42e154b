#pragma once
// Replaces the global operator new of the test that includes this (once): counts requests, adds them up and
// remembers the largest, those of aligned memory included, which is what tensors ask for. Not inlined, as the
// compiler would then see malloc meet delete and warn.
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace test {

inline std::atomic<std::size_t> requests{0}, largest_request{0}, bytes_requested{0};

[[gnu::noinline]] inline void* watched(std::size_t size, std::size_t alignment) noexcept {
  ++requests;
  bytes_requested += size;
  for (std::size_t before = largest_request; size > before;)
    if (largest_request.compare_exchange_weak(before, size)) break;
  if (alignment <= alignof(std::max_align_t)) return std::malloc(size == 0 ? 1 : size);
  return std::aligned_alloc(alignment, (size + alignment) / alignment * alignment);
}
[[gnu::noinline]] inline void* watched_or_throw(std::size_t size, std::size_t alignment) {
  if (void* const at = watched(size, alignment)) return at;
  throw std::bad_alloc();
}
[[gnu::noinline]] inline void forget(void* at) noexcept {
  std::free(at);
}

/// The requests that `use` makes.
template <class Use>
std::size_t requests_of(Use&& use) {
  std::size_t const before = requests;
  use();
  return requests - before;
}

}  // namespace test

[[gnu::noinline]] void* operator new(std::size_t size) {
  return test::watched_or_throw(size, 1);
}
[[gnu::noinline]] void* operator new[](std::size_t size) {
  return test::watched_or_throw(size, 1);
}
[[gnu::noinline]] void* operator new(std::size_t size, std::nothrow_t const&) noexcept {
  return test::watched(size, 1);
}
[[gnu::noinline]] void* operator new[](std::size_t size, std::nothrow_t const&) noexcept {
  return test::watched(size, 1);
}
[[gnu::noinline]] void* operator new(std::size_t size, std::align_val_t alignment) {
  return test::watched_or_throw(size, std::size_t(alignment));
}
[[gnu::noinline]] void* operator new[](std::size_t size, std::align_val_t alignment) {
  return test::watched_or_throw(size, std::size_t(alignment));
}
[[gnu::noinline]] void operator delete(void* at) noexcept {
  test::forget(at);
}
[[gnu::noinline]] void operator delete[](void* at) noexcept {
  test::forget(at);
}
[[gnu::noinline]] void operator delete(void* at, std::size_t) noexcept {
  test::forget(at);
}
[[gnu::noinline]] void operator delete[](void* at, std::size_t) noexcept {
  test::forget(at);
}
[[gnu::noinline]] void operator delete(void* at, std::align_val_t) noexcept {
  test::forget(at);
}
[[gnu::noinline]] void operator delete[](void* at, std::align_val_t) noexcept {
  test::forget(at);
}
[[gnu::noinline]] void operator delete(void* at, std::size_t, std::align_val_t) noexcept {
  test::forget(at);
}
[[gnu::noinline]] void operator delete[](void* at, std::size_t, std::align_val_t) noexcept {
  test::forget(at);
}
