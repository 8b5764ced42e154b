#pragma once
// Replaces the global operator new of the test that includes this (once): adds up what is asked for. Every form
// that the library's containers use is here, so that memory never leaves by another door than it came in. Not
// inlined, as the compiler would then see malloc meet delete and warn.
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace test {
inline std::atomic<std::size_t> bytes_requested{0};
[[gnu::noinline]] inline void* counted(std::size_t size) noexcept {
  bytes_requested += size;
  return std::malloc(size == 0 ? 1 : size);
}
[[gnu::noinline]] inline void release(void* at) noexcept {
  std::free(at);
}
}  // namespace test

[[gnu::noinline]] void* operator new(std::size_t size) {
  if (void* const at = test::counted(size)) return at;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new[](std::size_t size) {
  if (void* const at = test::counted(size)) return at;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(std::size_t size, std::nothrow_t const&) noexcept {
  return test::counted(size);
}
[[gnu::noinline]] void* operator new[](std::size_t size, std::nothrow_t const&) noexcept {
  return test::counted(size);
}
[[gnu::noinline]] void operator delete(void* at) noexcept {
  test::release(at);
}
[[gnu::noinline]] void operator delete[](void* at) noexcept {
  test::release(at);
}
[[gnu::noinline]] void operator delete(void* at, std::size_t) noexcept {
  test::release(at);
}
[[gnu::noinline]] void operator delete[](void* at, std::size_t) noexcept {
  test::release(at);
}
