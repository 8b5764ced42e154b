#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "accrete/core/error.hpp"
#include "accrete/data/split_step.hpp"
#include "accrete/data/word_splitter.hpp"

namespace accrete::inline v0::data {

/// The steps of a pre-tokenizer, compiled. Read-only after construction, so threads may share it; each brings
/// its own `memory`.
class text_splitter {
  struct piece {
    std::size_t begin, end;
    bool matched;
  };

 public:
  struct memory {
    struct level {
      word_splitter::memory match;
      std::string prefixed;
      std::vector<piece> pieces;
    };
    std::vector<level> levels;
  };

  /// Throws `io_error` that begins with `where` on a pattern that does not compile.
  text_splitter(std::vector<split_step> const& steps, std::string const& where) : steps_(steps) {
    for (split_step const& step : steps_) try {
        splitters_.push_back(step.pattern.empty() ? std::nullopt
                                                  : std::make_optional<word_splitter>(step.pattern));
      } catch (config_error const& e) {
        throw io_error(where + ": " + e.what());
      }
  }

  [[nodiscard]] memory make_memory() const {
    memory made;
    for (auto const& splitter : splitters_) {
      made.levels.emplace_back();
      if (splitter) made.levels.back().match = splitter->make_memory();
    }
    return made;
  }

  /// Calls `visit(std::string_view word)` for every word, in order. A word lives until `visit` returns. The
  /// text must be valid UTF-8: it is not checked again.
  template <class Visit>
  void split(std::string_view text, memory& m, Visit&& visit) const {
    if (!text.empty()) split_from(0, text, m, visit);
  }

 private:
  template <class Visit>
  void split_from(std::size_t i, std::string_view text, memory& m, Visit& visit) const {
    if (i == steps_.size()) return visit(text);
    split_step const& step = steps_[i];
    auto& level = m.levels[i];
    if (step.prefix_space && text.front() != ' ') {
      level.prefixed.assign(1, ' ').append(text);
      text = level.prefixed;
    }
    if (!splitters_[i]) return split_from(i + 1, text, m, visit);
    if (step.how == split_step::isolated) {
      bool const last = i + 1 == steps_.size();
      return splitters_[i]->split(text, level.match, [&](std::string_view word) {
        if (last)
          visit(word);
        else
          split_from(i + 1, word, m, visit);
      });
    }
    level.pieces.clear();
    splitters_[i]->for_each_piece(text, level.match, [&](std::string_view part, bool matched) {
      auto const begin = std::size_t(part.data() - text.data());
      level.pieces.push_back({begin, begin + part.size(), matched != step.invert});
    });
    put_together(step.how, level.pieces);
    for (piece const& p : level.pieces)
      if (p.end > p.begin) split_from(i + 1, text.substr(p.begin, p.end - p.begin), m, visit);
  }

  static void put_together(split_step::behavior how, std::vector<piece>& pieces) {
    if (how == split_step::removed) {
      std::erase_if(pieces, [](piece const& p) { return p.matched; });
      return;
    }
    std::size_t kept = 0;
    if (how == split_step::merged_with_next) {  // backwards, so that the last of several matches is the one
      bool next_matched = false;
      std::size_t first = pieces.size();
      for (std::size_t k = pieces.size(); k > 0; --k) {
        piece const p = pieces[k - 1];
        if (p.matched && !next_matched && first < pieces.size())
          pieces[first].begin = p.begin;
        else
          pieces[--first] = p;
        next_matched = p.matched;
      }
      pieces.erase(pieces.begin(), pieces.begin() + std::ptrdiff_t(first));
      return;
    }
    bool before_matched = false;
    for (piece const p : pieces) {
      bool const joins = kept > 0 && (how == split_step::contiguous ? p.matched == before_matched
                                                                    : p.matched && !before_matched);
      if (joins)
        pieces[kept - 1].end = p.end;
      else
        pieces[kept++] = p;
      before_matched = p.matched;
    }
    pieces.resize(kept);
  }

  std::vector<split_step> steps_;
  std::vector<std::optional<word_splitter>> splitters_;
};

}  // namespace accrete::inline v0::data
