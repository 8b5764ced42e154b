#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "accrete/core/error.hpp"
#include "accrete/core/view.hpp"
#include "accrete/data/byte_alphabet.hpp"
#include "accrete/data/byte_pairs.hpp"
#include "accrete/data/split_rule.hpp"
#include "accrete/data/utf8.hpp"
#include "accrete/data/word_cache.hpp"
#include "accrete/data/word_splitter.hpp"

namespace accrete::inline v0::data {

/// What a byte-level BPE tokenizer is made of, as files say it.
struct tokenizer_spec {
  /// As `tokenizer.ggml.token_type` numbers them.
  enum kind : std::int32_t { normal = 1, unknown_text = 2, control = 3, user_defined = 4, unused = 5 };

  std::vector<std::string> tokens;  ///< [V] normal ones in GPT-2's byte alphabet, all others as plain text
  std::vector<std::int32_t> kinds;  ///< [V], or empty: all normal
  std::vector<std::string> merges;  ///< "left right", the most important first
  std::string split = "gpt-2";      ///< a name of `split_rules`
  std::int32_t bos = -1;            ///< -1: none
  std::int32_t eos = -1;
  std::int32_t unknown = -1;  ///< stands for a byte that the vocabulary lacks
  bool add_bos = false;       ///< whether the model expects `bos` in front of every text

  /// The merge of a file that lists pairs instead of strings.
  void add_merge(std::string_view left, std::string_view right) {
    merges.push_back(std::string(left) + " " + std::string(right));
  }
};

/// What the text of a control token means in a text: the token, or its characters. Training text is data, so
/// that the default is the second.
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

  /// Appends the tokens of a text; no token is added in front or at the end. User-defined tokens are matched
  /// always, control tokens only with `special::parse`; the leftmost, of those the longest. Throws
  /// `config_error` on invalid UTF-8, naming the byte.
  void encode(std::string_view text, std::vector<std::int32_t>& out, special how = special::as_text) const {
    state_->check_text(text);
    lease const working(*state_);
    std::size_t done = 0;
    if (state_->num_matched[how == special::parse] > 0)
      for (std::size_t i = 0; i < text.size();) {
        added const* const found = state_->match_added(text.substr(i), how);
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

  /// The bytes of the tokens; a part of a text may begin or end inside of a character.
  [[nodiscard]] std::string decode(std::span<std::int32_t const> ids) const {
    std::string out;
    for (std::int32_t const id : ids) out += piece(id);
    return out;
  }
  /// The bytes of one token, valid as long as a copy of the tokenizer lives. Throws `config_error` on an id
  /// outside of the vocabulary.
  [[nodiscard]] std::string_view piece(std::int32_t id) const {
    if (id < 0 || id >= vocab_size())
      throw config_error("data::tokenizer::piece", "token id " + std::to_string(id),
                         "0 <= id < " + std::to_string(vocab_size()));
    return state_->piece(id);
  }
  /// The id of a token by its bytes ("<|im_start|>", "\n"), -1 when there is none.
  [[nodiscard]] std::int32_t find(std::string_view bytes) const { return state_->find(bytes); }
  /// True for tokens that are no text: control, unknown and unused ones.
  [[nodiscard]] bool is_control(std::int32_t id) const { return state_->is_control(id); }

  [[nodiscard]] index_t vocab_size() const { return index_t(state_->pieces.size()); }
  [[nodiscard]] std::int32_t bos() const { return state_->bos; }
  [[nodiscard]] std::int32_t eos() const { return state_->eos; }
  [[nodiscard]] bool add_bos() const { return state_->add_bos; }
  /// 64 bits over everything that decides about tokens; for cache keys.
  [[nodiscard]] std::uint64_t identity() const { return state_->identity; }

 private:
  struct added {
    std::string_view text;
    std::int32_t id;
    bool control;
  };
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
          pairs(spec.merges.size()),
          bos(spec.bos),
          eos(spec.eos),
          unknown(spec.unknown),
          add_bos(spec.add_bos) {
      read_tokens(spec);
      read_merges(spec);
      sign(spec);
    }

    void read_tokens(tokenizer_spec const& spec) {
      if (spec.tokens.empty()) fail("0 tokens", "1 or more");
      if (!spec.kinds.empty() && spec.kinds.size() != spec.tokens.size())
        fail(std::to_string(spec.kinds.size()) + " token kinds", std::to_string(spec.tokens.size()));
      auto const count = std::int64_t(spec.tokens.size());
      if (count > INT32_MAX) fail(std::to_string(count) + " tokens", "fewer than 2^31");
      for (auto const& [what, id] :
           {std::pair{"bos", spec.bos}, std::pair{"eos", spec.eos}, std::pair{"unknown", spec.unknown}})
        if (id < -1 || id >= count)
          fail(std::string(what) + " id " + std::to_string(id), "-1 or an id below " + std::to_string(count));
      if (add_bos && bos < 0) fail("no bos id", "one, since it is asked for in front of every text");

      kinds = spec.kinds;
      if (kinds.empty()) kinds.assign(spec.tokens.size(), tokenizer_spec::normal);
      std::vector<std::size_t> ends;
      for (std::size_t id = 0; id < spec.tokens.size(); ++id) {
        std::string const& token = spec.tokens[id];
        auto const bytes = kinds[id] == tokenizer_spec::normal ? gpt2_bytes.read(token) : token;
        if (!bytes)
          fail("token " + std::to_string(id) + " with a character that stands for no byte",
               "GPT-2's byte alphabet");
        text.insert(text.end(), bytes->begin(), bytes->end());
        ends.push_back(text.size());
      }
      // Views only now: the buffer has stopped moving.
      std::size_t first = 0;
      for (std::size_t end : ends) {
        pieces.emplace_back(text.data() + first, end - first);
        first = end;
      }
      for (std::size_t id = 0; id < pieces.size(); ++id) {
        bool const is_normal = kinds[id] == tokenizer_spec::normal;
        if (is_normal) words.try_emplace(pieces[id], std::int32_t(id));
        bool const is_added = kinds[id] == tokenizer_spec::control || kinds[id] == tokenizer_spec::user_defined;
        if (!is_added || pieces[id].empty()) continue;
        bool const control = kinds[id] == tokenizer_spec::control;
        by_first_byte[static_cast<unsigned char>(pieces[id][0])].push_back(
            {pieces[id], std::int32_t(id), control});
        ++num_matched[1];
        if (!control) ++num_matched[0];
      }
      for (auto& list : by_first_byte)
        std::stable_sort(list.begin(), list.end(),
                         [](added const& a, added const& b) { return a.text.size() > b.text.size(); });
      for (unsigned b = 0; b < 256; ++b) {
        char const c = char(b);
        auto const found = words.find({&c, 1});
        byte_ids[b] = found == words.end() ? unknown : found->second;
      }
    }

    void read_merges(tokenizer_spec const& spec) {
      for (std::size_t rank = 0; rank < spec.merges.size(); ++rank) {
        std::string_view const entry = spec.merges[rank];
        auto const space = entry.find(' ');
        if (space == std::string_view::npos || space == 0 || space + 1 == entry.size() ||
            entry.find(' ', space + 1) != std::string_view::npos)
          fail("merge " + std::to_string(rank) + " '" + std::string(entry.substr(0, 80)) + "'",
               "two tokens with one space between");
        auto const left = word_id(entry.substr(0, space));
        auto const right = word_id(entry.substr(space + 1));
        auto const both = word_id(std::string(entry.substr(0, space)).append(entry.substr(space + 1)));
        if (left < 0 || right < 0 || both < 0)
          fail("merge " + std::to_string(rank) + " '" + std::string(entry.substr(0, 80)) + "'",
               "both parts and the whole to be tokens");
        pairs.insert(left, right, {std::int32_t(rank), both});
      }
    }

    void sign(tokenizer_spec const& spec) {
      std::uint64_t h = 0xcbf29ce484222325ull;
      auto const mix = [&h](std::string_view bytes) {
        for (char const c : bytes) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
        h = (h ^ 0x100u) * 0x100000001b3ull;  // ends the item: "ab" "c" is not "a" "bc"
      };
      for (auto const piece_bytes : pieces) mix(piece_bytes);
      for (auto const k : kinds) mix(std::to_string(k));
      for (auto const& entry : spec.merges) mix(entry);
      mix(rule.pattern);
      for (std::int64_t v : {std::int64_t(rule.whole_words), std::int64_t(bos), std::int64_t(eos),
                             std::int64_t(unknown), std::int64_t(add_bos)})
        mix(std::to_string(v));
      identity = h;
    }

    void check_text(std::string_view input) const {
      auto const bad = find_invalid_utf8(input);
      if (bad != std::string_view::npos)
        throw config_error("data::tokenizer::encode", "invalid UTF-8 at byte " + std::to_string(bad),
                           "UTF-8 text", "convert the text first");
      if (unknown >= 0) return;
      for (std::size_t i = 0; i < input.size(); ++i) {
        auto const byte = static_cast<unsigned char>(input[i]);
        if (byte_ids[byte] < 0)
          throw config_error(
              "data::tokenizer::encode",
              "byte " + std::to_string(byte) + " at " + std::to_string(i) + ", which the vocabulary lacks",
              "only bytes with a token, since there is no unknown token", "remove the character from the text");
      }
    }

    added const* match_added(std::string_view rest, special how) const {
      for (added const& a : by_first_byte[static_cast<unsigned char>(rest[0])])
        if ((how == special::parse || !a.control) && rest.starts_with(a.text)) return &a;
      return nullptr;
    }

    void encode_words(std::string_view input, working_memory& m, std::vector<std::int32_t>& out) const {
      splitter.split(input, m.match, [&](std::string_view word) {
        if (auto const known = m.cache.find(word)) {
          out.insert(out.end(), known->begin(), known->end());
          return;
        }
        m.ids.clear();
        auto const whole = rule.whole_words ? words.find(word) : words.end();
        if (whole != words.end()) {
          m.ids.push_back(whole->second);
        } else {
          m.bytes.clear();
          for (char const c : word) m.bytes.push_back(byte_ids[static_cast<unsigned char>(c)]);
          pairs.apply(m.bytes, m.merging, m.ids);
        }
        m.cache.insert(word, m.ids);
        out.insert(out.end(), m.ids.begin(), m.ids.end());
      });
    }

    [[nodiscard]] std::string_view piece(std::int32_t id) const { return pieces[std::size_t(id)]; }
    [[nodiscard]] bool is_control(std::int32_t id) const {
      auto const k = kinds.at(std::size_t(id));
      return k != tokenizer_spec::normal && k != tokenizer_spec::user_defined;
    }
    [[nodiscard]] std::int32_t word_id(std::string_view entry) const {
      auto const bytes = gpt2_bytes.read(entry);
      auto const found = bytes ? words.find(*bytes) : words.end();
      return found == words.end() ? -1 : found->second;
    }
    [[nodiscard]] std::int32_t find(std::string_view bytes) const {
      auto const found = words.find(bytes);
      if (found != words.end()) return found->second;
      auto const other = std::find(pieces.begin(), pieces.end(), bytes);
      return other == pieces.end() ? -1 : std::int32_t(other - pieces.begin());
    }
    [[noreturn]] static void fail(std::string const& got, std::string const& expected) {
      throw io_error("data::tokenizer", got, expected, "the file may be damaged or of another kind");
    }

    split_rule const& rule;
    word_splitter splitter;
    byte_pairs pairs;
    std::int32_t bos, eos, unknown;
    bool add_bos;
    std::vector<char> text;  // the bytes of all tokens, end to end
    std::vector<std::string_view> pieces;
    std::vector<std::int32_t> kinds;
    std::unordered_map<std::string_view, std::int32_t> words;
    std::array<std::int32_t, 256> byte_ids{};
    std::array<std::vector<added>, 256> by_first_byte;  // the longest first
    std::array<std::size_t, 2> num_matched{};           // by special: as_text, parse
    std::uint64_t identity = 0;
    std::mutex mutable lock;
    std::vector<std::unique_ptr<working_memory>> mutable idle;
  };

  // Borrows a working memory for one call, so that word caches outlive calls and none is shared.
  struct lease {
    explicit lease(state const& s) : owner(s) {
      {
        std::scoped_lock const guard(s.lock);
        if (!s.idle.empty()) {
          memory = std::move(s.idle.back());
          s.idle.pop_back();
        }
      }
      if (!memory) {
        memory = std::make_unique<working_memory>();
        memory->match = s.splitter.make_memory();
      }
    }
    lease(lease const&) = delete;
    lease& operator=(lease const&) = delete;
    ~lease() {
      std::scoped_lock const guard(owner.lock);
      owner.idle.push_back(std::move(memory));
    }
    state const& owner;
    std::unique_ptr<working_memory> memory;
  };

  std::shared_ptr<state const> state_;
};

}  // namespace accrete::inline v0::data
