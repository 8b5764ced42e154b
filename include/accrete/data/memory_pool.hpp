#pragma once
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

namespace accrete::inline v0::data {

/// Working memories that calls on any thread borrow, so that what they remember outlives a call and no two
/// calls share one. As many are made as there ever are calls at once.
template <class Memory>
class memory_pool {
 public:
  /// A borrowed memory; goes back at the end. The pool has to outlive it.
  class loan {
   public:
    loan(memory_pool& owner, std::unique_ptr<Memory> memory) : owner_(owner), memory_(std::move(memory)) {}
    loan(loan const&) = delete;
    loan& operator=(loan const&) = delete;
    ~loan() { owner_.take_back(std::move(memory_)); }
    [[nodiscard]] Memory& operator*() const { return *memory_; }

   private:
    memory_pool& owner_;
    std::unique_ptr<Memory> memory_;
  };

  /// One that is idle, else what `make()` returns.
  template <class Make>
  [[nodiscard]] loan borrow(Make&& make) {
    auto idle = take();
    return {*this, idle ? std::move(idle) : std::make_unique<Memory>(make())};
  }

 private:
  [[nodiscard]] std::unique_ptr<Memory> take() {
    std::scoped_lock const guard(lock_);
    if (idle_.empty()) return nullptr;
    auto last = std::move(idle_.back());
    idle_.pop_back();
    return last;
  }
  void take_back(std::unique_ptr<Memory> memory) {
    std::scoped_lock const guard(lock_);
    try {
      idle_.push_back(std::move(memory));
    } catch (std::bad_alloc const&) {  // then a later call makes a new one
    }
  }

  std::mutex lock_;  // guards `idle_`
  std::vector<std::unique_ptr<Memory>> idle_;
};

}  // namespace accrete::inline v0::data
