#pragma once
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "accrete/data/open.hpp"
#include "accrete/data/text_files.hpp"
#include "accrete/data/text_stream.hpp"
#include "accrete/data/tokenizer.hpp"

namespace accrete::inline v0::data::detail {

/// Texts that one thread tokenizes at a time.
struct text_block {
  struct item {
    text_position begin;
    std::size_t end;  // of its tokens; where the one before ends it has none
    bool empty;
  };
  std::vector<raw_text> texts;
  std::vector<item> items;
  std::vector<std::int32_t> tokens;
  std::exception_ptr fault;  // of the text behind the last item
  std::uint64_t consumed = 0;
  bool done = false;
};

/// Threads that tokenize blocks in any order. What goes in comes out in the order it went in.
class tokenizing_threads {
 public:
  tokenizing_threads(tokenizer words, text_format format, int threads)
      : words_(std::move(words)), format_(std::move(format)) {
    try {
      for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
    } catch (...) {
      stop();
      throw;
    }
  }
  tokenizing_threads(tokenizing_threads const&) = delete;
  tokenizing_threads& operator=(tokenizing_threads const&) = delete;
  ~tokenizing_threads() { stop(); }

  void put(std::unique_ptr<text_block> block) {
    {
      std::scoped_lock const guard(lock_);
      waiting_.push_back(block.get());
      all_.push_back(std::move(block));
    }
    changed_.notify_all();
  }
  [[nodiscard]] std::size_t size() const { return all_.size(); }  // touched by the owner alone
  /// Waits for the oldest one.
  [[nodiscard]] std::unique_ptr<text_block> take() {
    std::unique_lock guard(lock_);
    changed_.wait(guard, [&] { return all_.front()->done; });
    auto block = std::move(all_.front());
    all_.pop_front();
    return block;
  }

 private:
  void work() {
    for (;;) {
      text_block* block = nullptr;
      {
        std::unique_lock guard(lock_);
        changed_.wait(guard, [&] { return stopping_ || !waiting_.empty(); });
        if (stopping_) return;
        block = waiting_.front();
        waiting_.pop_front();
      }
      tokenize(*block);
      {
        std::scoped_lock const guard(lock_);
        block->done = true;
      }
      changed_.notify_all();
    }
  }
  void tokenize(text_block& block) const {
    auto const earlier = std::exchange(block.fault, nullptr);  // the reader's, behind all texts
    try {
      for (raw_text& raw : block.texts) {
        auto const begin = raw.begin;
        auto name = raw.name();
        document_text const text{std::move(name), text_of(std::move(raw), format_)};
        bool const empty = blank(text.text);
        if (!empty) encode_document(words_, text, block.tokens);
        block.items.push_back({begin, block.tokens.size(), empty});
      }
      block.fault = earlier;
    } catch (...) {
      block.fault = std::current_exception();
    }
    block.texts.clear();
  }
  void stop() {
    {
      std::scoped_lock const guard(lock_);
      stopping_ = true;
    }
    changed_.notify_all();
    for (auto& t : threads_) t.join();
    threads_.clear();
  }

  tokenizer words_;
  text_format format_;
  std::mutex lock_;
  std::condition_variable changed_;
  std::deque<std::unique_ptr<text_block>> all_;
  std::deque<text_block*> waiting_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace accrete::inline v0::data::detail
