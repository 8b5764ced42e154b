#pragma once
// Replaces the global operator new of the test that includes this (once): adds up what is asked for. Not
// inlined, as the compiler would then see malloc meet delete and warn.
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace test {
inline std::atomic<std::size_t> bytes_requested{0};
}

[[gnu::noinline]] void* operator new(std::size_t size) {
  test::bytes_requested += size;
  if (void* const at = std::malloc(size == 0 ? 1 : size)) return at;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* at) noexcept {
  std::free(at);
}
[[gnu::noinline]] void operator delete(void* at, std::size_t) noexcept {
  std::free(at);
}
