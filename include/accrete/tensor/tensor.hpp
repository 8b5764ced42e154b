#pragma once
#include <array>
#include <cstddef>
#include <cstring>
#include <new>
#include <type_traits>
#include <utility>

#include "accrete/core/view.hpp"

namespace accrete::inline v0 {

/// Where owning tensors get their bytes. A backend with memory of its own specializes this for its space.
template <class Space>
struct memory;

template <>
struct memory<mem::host> {
  static constexpr std::size_t alignment = 64;  ///< a cache line, and the widest vector register
  /// Zero-filled bytes; throws std::bad_alloc.
  static void* allocate(std::size_t bytes) {
    void* p = ::operator new (bytes, std::align_val_t{alignment});
    std::memset(p, 0, bytes);
    return p;
  }
  static void release(void* p) noexcept { ::operator delete (p, std::align_val_t{alignment}); }
};

/// An owning, contiguous, zero-initialized tensor. Moves, never copies by accident; everything that computes
/// takes a `view`, to which it converts.
template <class T, int Rank, class Space = mem::host>
class tensor {
  static_assert(std::is_trivially_copyable_v<T>,
                "[accrete] tensor: the element must be trivially copyable, as device memory holds bytes only");

 public:
  using value_type = T;
  using space = Space;
  static constexpr int rank = Rank;
  using extents_type = std::array<index_t, std::size_t(Rank)>;

  tensor() = default;
  explicit tensor(extents_type extents) : view_(nullptr, extents) {
    if (view_.size() > 0) view_.data = static_cast<T*>(memory<Space>::allocate(bytes()));
  }
  tensor(tensor&& other) noexcept : view_(std::exchange(other.view_, {})) {}
  tensor& operator=(tensor&& other) noexcept {
    std::swap(view_, other.view_);
    return *this;
  }
  ~tensor() {
    if (view_.data != nullptr) memory<Space>::release(view_.data);
  }

  [[nodiscard]] accrete::view<T, Rank, Space> view() { return view_; }
  [[nodiscard]] accrete::view<T const, Rank, Space> view() const { return view_; }
  operator accrete::view<T, Rank, Space>() { return view_; }
  operator accrete::view<T const, Rank, Space>() const { return view_; }

  [[nodiscard]] index_t size() const { return view_.size(); }
  [[nodiscard]] bool empty() const { return view_.empty(); }
  [[nodiscard]] index_t extent(int d) const { return view_.extent(d); }
  [[nodiscard]] std::size_t bytes() const { return std::size_t(view_.size()) * sizeof(T); }
  [[nodiscard]] T* data() { return view_.data; }
  [[nodiscard]] T const* data() const { return view_.data; }

 private:
  accrete::view<T, Rank, Space> view_;
};

}  // namespace accrete::inline v0
