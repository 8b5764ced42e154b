#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "accrete/core/error.hpp"
#include "accrete/core/view.hpp"
#include "accrete/data/byte_pairs.hpp"
#include "accrete/data/split_rule.hpp"
#include "accrete/data/tokenizer_spec.hpp"
#include "accrete/data/utf8.hpp"
#include "accrete/data/vocabulary.hpp"
#include "accrete/data/word_cache.hpp"
#include "accrete/data/word_splitter.hpp"
#include "accrete/io/message_text.hpp"

namespace accrete::inline v0::data {

/// What the text of a control token means in a text: the token, or its characters. Training text is data, so
/// the second is the default.
enum class special { as_text, parse };

/// Byte-level BPE. Cheap to copy; copies share one read-only state, and any number of threads may encode at
/// once (each call borrows a working memory with a word cache of its own).
///
/// `decode(encode(x)) == x` for every valid UTF-8 text unless the vocabulary lacks a byte: such a byte becomes
/// the unknown token, or an error where the file names none. Text is taken as it is (no NFC, nothing trimmed).
class tokenizer {
 public:
  /// Throws `io_error` on a specification that contradicts itself.
  explicit tokenizer(tokenizer_spec const& spec) : state_(std::make_shared<state>(spec)) {}

  /// Appends the tokens of a text; nothing is put in front or at the end. User-defined tokens are matched
  /// always, control tokens only with `special::parse`; the leftmost, of those the longest. Throws
  /// `config_error` on invalid UTF-8, naming the byte.
  void encode(std::string_view text, std::vector<std::int32_t>& out, special how = special::as_text) const {
    state_->check_text(text);
    lease const working(*state_);
    auto const& words = state_->words;
    bool const control = how == special::parse;
    std::size_t done = 0;
    for (std::size_t i = words.has_added(control) ? 0 : text.size(); i < text.size();) {
      auto const* const found = words.match_added(text.substr(i), control);
      if (found == nullptr) {
        ++i;
        continue;
      }
      state_->encode_words(text.substr(done, i - done), *working.memory, out);
      out.push_back(found->id);
      done = i += found->text.size();
    }
    state_->encode_words(text.substr(done), *working.memory, out);
  }
  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text, special how = special::as_text) const {
    std::vector<std::int32_t> out;
    encode(text, out, how);
    return out;
  }

  /// The bytes of the tokens; part of a text may begin or end inside of a character. Throws `config_error` on
  /// an id outside of the vocabulary.
  [[nodiscard]] std::string decode(std::span<std::int32_t const> ids) const {
    std::string out;
    for (std::int32_t const id : ids) out += state_->words.piece(id, "data::tokenizer::decode");
    return out;
  }
  /// The bytes of one token, valid as long as a copy of the tokenizer lives.
  [[nodiscard]] std::string_view piece(std::int32_t id) const {
    return state_->words.piece(id, "data::tokenizer::piece");
  }
  /// The id of a token by its bytes ("<|im_start|>", "\n"), -1 when there is none.
  [[nodiscard]] std::int32_t find(std::string_view bytes) const { return state_->words.find(bytes); }
  /// True for tokens that are no text: control, unknown and unused ones.
  [[nodiscard]] bool is_control(std::int32_t id) const {
    return state_->words.is_control(id, "data::tokenizer::is_control");
  }

  [[nodiscard]] index_t vocab_size() const { return state_->words.size(); }
  [[nodiscard]] std::int32_t bos() const { return state_->bos; }
  [[nodiscard]] std::int32_t eos() const { return state_->eos; }
  /// Whether the model expects `bos` in front of a text; `data::open` puts it there, `encode` never does.
  [[nodiscard]] bool add_bos() const { return state_->add_bos; }
  /// 64 bits over everything that decides about tokens; for cache keys.
  [[nodiscard]] std::uint64_t identity() const { return state_->identity; }

 private:
  struct working_memory {
    word_splitter::memory match;
    byte_pairs::memory merging;
    word_cache cache;
    std::vector<std::int32_t> bytes, ids;
  };

  struct state {
    explicit state(tokenizer_spec const& spec)
        : rule(find_split_rule(spec.split)),
          splitter(rule.pattern),
          words(spec),
          pairs(spec.merges.size()),
          bos(spec.bos),
          eos(spec.eos),
          unknown(spec.unknown),
          add_bos(spec.add_bos) {
      for (auto const& [what, id] :
           {std::pair{"bos", bos}, std::pair{"eos", eos}, std::pair{"unknown", unknown}})
        if (id < -1 || id >= words.size())
          detail::bad_tokenizer(std::string(what) + " id " + std::to_string(id),
                                "-1 or an id below " + std::to_string(words.size()));
      if (add_bos && bos < 0) detail::bad_tokenizer("no bos id", "one, since each text shall begin with it");
      for (std::size_t b = 0; b < 256; ++b) {
        char const byte = char(b);
        auto const found = words.find_word({&byte, 1});
        byte_ids[b] = found < 0 ? unknown : found;
      }
      read_merges(spec);
      sign(spec);
    }

    void read_merges(tokenizer_spec const& spec) {
      for (std::size_t rank = 0; rank < spec.merges.size(); ++rank) {
        std::string_view const entry = spec.merges[rank];
        auto const quoted = [&] { return "merge " + std::to_string(rank) + " " + io::name_text(entry); };
        auto const space = entry.find(' ');
        if (space == std::string_view::npos || entry.find(' ', space + 1) != std::string_view::npos)
          detail::bad_tokenizer(quoted(), "two tokens with one space between");
        auto const left = words.find_entry(entry.substr(0, space));
        auto const right = words.find_entry(entry.substr(space + 1));
        auto const both = words.find_entry(std::string(entry.substr(0, space)).append(entry.substr(space + 1)));
        if (left < 0 || right < 0 || both < 0)
          detail::bad_tokenizer(quoted(), "both parts and the whole to be tokens");
        pairs.insert(left, right, {std::int32_t(rank), both});
      }
    }

    void sign(tokenizer_spec const& spec) {
      std::uint64_t h = 0xcbf29ce484222325ull;  // FNV-1a
      auto const mix = [&h](std::string_view item) {
        for (char const c : item) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
        h = (h ^ 0x100u) * 0x100000001b3ull;  // ends the item: "ab", "c" is not "a", "bc"
      };
      for (auto const& token : spec.tokens) mix(token);
      for (auto const kind : spec.kinds) mix(std::to_string(kind));
      mix(rule.pattern);
      for (auto const& entry : spec.merges) mix(entry);
      for (std::int32_t const v : {std::int32_t(rule.whole_words), bos, eos, unknown, std::int32_t(add_bos)})
        mix(std::to_string(v));
      identity = h;
    }

    void check_text(std::string_view text) const {
      auto const bad = find_invalid_utf8(text);
      if (bad != std::string_view::npos)
        throw config_error("data::tokenizer::encode", "invalid UTF-8 at byte " + std::to_string(bad),
                           "UTF-8 text", "convert the text first");
      if (unknown >= 0) return;
      for (std::size_t i = 0; i < text.size(); ++i)
        if (byte_ids[static_cast<unsigned char>(text[i])] < 0)
          throw config_error("data::tokenizer::encode",
                             "at byte " + std::to_string(i) + " the value " +
                                 std::to_string(unsigned(static_cast<unsigned char>(text[i]))) +
                                 ", for which the vocabulary has no token",
                             "only bytes with one, since there is no unknown token",
                             "remove the character from the text");
    }

    void encode_words(std::string_view text, working_memory& m, std::vector<std::int32_t>& out) const {
      splitter.split(text, m.match, [&](std::string_view word) {
        if (auto const known = m.cache.find(word)) {
          out.insert(out.end(), known->begin(), known->end());
          return;
        }
        m.ids.clear();
        auto const whole = rule.whole_words ? words.find_word(word) : -1;
        if (whole >= 0) {
          m.ids.push_back(whole);
        } else {
          m.bytes.clear();
          for (char const c : word) m.bytes.push_back(byte_ids[static_cast<unsigned char>(c)]);
          pairs.apply(m.bytes, m.merging, m.ids);
        }
        m.cache.insert(word, m.ids);
        out.insert(out.end(), m.ids.begin(), m.ids.end());
      });
    }

    split_rule const& rule;
    word_splitter splitter;
    vocabulary words;
    byte_pairs pairs;
    std::int32_t bos, eos, unknown;
    bool add_bos;
    std::array<std::int32_t, 256> byte_ids{};
    std::uint64_t identity = 0;
    std::mutex mutable lock;  // guards `idle`
    std::vector<std::unique_ptr<working_memory>> mutable idle;
  };

  // Borrows a working memory for one call, so that word caches outlive calls and no two calls share one.
  struct lease {
    explicit lease(state const& s) : owner(s) {
      {
        std::scoped_lock const guard(s.lock);
        if (!s.idle.empty()) {
          memory = std::move(s.idle.back());
          s.idle.pop_back();
        }
      }
      if (memory) return;
      memory = std::make_unique<working_memory>();
      memory->match = s.splitter.make_memory();
    }
    lease(lease const&) = delete;
    lease& operator=(lease const&) = delete;
    ~lease() {
      std::scoped_lock const guard(owner.lock);
      try {
        owner.idle.push_back(std::move(memory));
      } catch (std::bad_alloc const&) {  // then the next call makes a new one
      }
    }
    state const& owner;
    std::unique_ptr<working_memory> memory;
  };

  std::shared_ptr<state const> state_;
};

}  // namespace accrete::inline v0::data
