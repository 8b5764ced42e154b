#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
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
#include "accrete/data/added_tokens.hpp"
#include "accrete/data/byte_pairs.hpp"
#include "accrete/data/normal_form.hpp"
#include "accrete/data/split_rule.hpp"
#include "accrete/data/text_splitter.hpp"
#include "accrete/data/tokenizer_spec.hpp"
#include "accrete/data/utf8.hpp"
#include "accrete/data/vocabulary.hpp"
#include "accrete/data/word_cache.hpp"
#include "accrete/io/message_text.hpp"

namespace accrete::inline v0::data {

/// What the text of a control token means in a text: the token, or its characters. Training text is data, so
/// the second is the default.
enum class special { as_text, parse };

/// Byte-level BPE. Cheap to copy; copies share one read-only state, and any number of threads may encode at
/// once (each call borrows a working memory with a word cache of its own).
///
/// `decode(encode(x)) == x` for every valid UTF-8 text that the normalizer leaves alone, unless the file says
/// otherwise: tokens that take white space along, a split that removes its matches, a space in front, or a
/// vocabulary that lacks a byte. Such a byte becomes the unknown token; where the file names none, it is left
/// out (tokenizer.json, as `tokenizers` does) or an error (GGUF).
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
    bool const with_special = how == special::parse;
    auto& m = *working.memory;
    state_->plain.split(
        text, with_special,
        [&](std::string_view part) {
          part = state_->normal.apply(part, m.normalized);
          if (state_->normalized.empty()) return state_->encode_words(part, m, out);
          state_->normalized.split(
              part, with_special, [&](std::string_view rest) { state_->encode_words(rest, m, out); },
              [&](std::int32_t id) { out.push_back(id); });
        },
        [&](std::int32_t id) { out.push_back(id); });
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
  /// Whether it expects `eos` behind a text, likewise.
  [[nodiscard]] bool add_eos() const { return state_->add_eos; }
  /// The file it comes from, as messages name it; empty for one made by hand.
  [[nodiscard]] std::string const& source() const { return state_->source; }
  /// 64 bits over everything that decides about tokens; for cache keys.
  [[nodiscard]] std::uint64_t identity() const { return state_->identity; }
  /// The file it was read from; empty for one made by hand.
  [[nodiscard]] std::filesystem::path const& file() const { return state_->file; }
  /// The same in 16 hexadecimal digits, as token shards keep it.
  [[nodiscard]] std::string identity_text() const {
    std::string text;
    for (int shift = 60; shift >= 0; shift -= 4) text += "0123456789abcdef"[(state_->identity >> shift) & 15];
    return text;
  }

 private:
  struct working_memory {
    text_splitter::memory split;
    byte_pairs::memory merging;
    word_cache cache;
    std::string normalized;
    std::vector<std::int32_t> bytes, ids;
  };

  struct state {
    explicit state(tokenizer_spec const& spec)
        : file(spec.file),
          source(spec.source),
          ignore_merges(spec.steps ? spec.ignore_merges : find_split_rule(spec.split, where()).whole_words),
          splitter(spec.steps ? fused(*spec.steps) : steps_of(find_split_rule(spec.split, where())), where()),
          words(spec),
          normal(spec.normalization),
          pairs(spec.merges.size()),
          bos(spec.bos),
          eos(spec.eos),
          unknown(spec.unknown),
          fuse_unknown(spec.fuse_unknown),
          drop_lacking(spec.drop_lacking),
          add_bos(spec.add_bos),
          add_eos(spec.add_eos) {
      for (auto const& [what, id] :
           {std::pair{"bos", bos}, std::pair{"eos", eos}, std::pair{"unknown", unknown}})
        if (id < -1 || id >= words.size())
          detail::bad_tokenizer(spec, std::string(what) + " id " + std::to_string(id),
                                "-1 or an id below " + std::to_string(words.size()));
      if (add_bos && bos < 0)
        detail::bad_tokenizer(spec, "no bos id", "one, since each text shall begin with it");
      if (add_eos && eos < 0)
        detail::bad_tokenizer(spec, "no eos id", "one, since each text shall end with it");
      for (std::size_t b = 0; b < 256; ++b) {
        char const byte = char(b);
        byte_ids[b] = words.find_word({&byte, 1});
        lacks_bytes = lacks_bytes || byte_ids[b] < 0;
      }
      read_merges(spec);
      std::vector<tokenizer_spec::added_token> added;
      read_added(spec, added);
      sign(spec, added);
    }

    [[nodiscard]] std::string where() const { return "data::tokenizer" + (source.empty() ? "" : " " + source); }

    void read_merges(tokenizer_spec const& spec) {
      std::string both;
      for (std::size_t rank = 0; rank < spec.merges.size(); ++rank) {
        std::string_view const entry = spec.merges[rank];
        auto const quoted = [&] { return "merge " + std::to_string(rank) + " " + io::name_text(entry); };
        auto const space = entry.find(' ');
        if (space == std::string_view::npos || entry.find(' ', space + 1) != std::string_view::npos)
          detail::bad_tokenizer(spec, quoted(), "two tokens with one space between");
        auto const left = words.find_entry(entry.substr(0, space));
        auto const right = words.find_entry(entry.substr(space + 1));
        auto const whole =
            words.find_entry(both.assign(entry.substr(0, space)).append(entry.substr(space + 1)));
        if (left < 0 || right < 0 || whole < 0)
          detail::bad_tokenizer(spec, quoted(), "both parts and the whole to be tokens");
        pairs.insert(left, right, {std::int32_t(rank), whole});
      }
    }

    void read_added(tokenizer_spec const& spec, std::vector<tokenizer_spec::added_token>& added) {
      auto const add = [&](tokenizer_spec::added_token const& t) {
        if (t.id < 0 || t.id >= words.size())
          detail::bad_tokenizer(spec, "an added token of id " + std::to_string(t.id),
                                "an id below " + std::to_string(words.size()));
        std::string_view const text = t.content.empty() ? words.piece(t.id, "data::tokenizer") : t.content;
        if (find_invalid_utf8(text) != std::string_view::npos)  // half of a character would be left over
          detail::bad_tokenizer(spec, "an added token " + io::name_text(text), "UTF-8");
        added_tokens::token const token{t.id, t.special, t.single_word, t.lstrip, t.rstrip};
        std::string memory;
        if (t.normalized)
          normalized.insert(normal.apply(text, memory), token);
        else
          plain.insert(text, token);
      };
      if (spec.added) added = *spec.added;
      for (std::size_t id = 0; !spec.added && id < spec.kinds.size(); ++id)
        if (spec.kinds[id] == tokenizer_spec::control || spec.kinds[id] == tokenizer_spec::user_defined)
          added.push_back({.id = std::int32_t(id), .special = spec.kinds[id] == tokenizer_spec::control});
      for (auto& t : added) {
        add(t);
        if (t.content.empty()) t.content = words.piece(t.id, "data::tokenizer");
      }
    }

    void sign(tokenizer_spec const& spec, std::vector<tokenizer_spec::added_token> const& added) {
      std::uint64_t h = 0xcbf29ce484222325ull;  // FNV-1a
      auto const mix = [&h](std::string_view item) {
        for (char const c : item) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
        h = (h ^ 0x100u) * 0x100000001b3ull;  // ends the item: "ab", "c" is not "a", "bc"
      };
      auto const number = [&mix](auto value) { mix(std::to_string(value)); };
      // What the parts do counts, not how a file says it: a GGUF and a tokenizer.json of one tokenizer agree.
      for (std::int32_t id = 0; id < words.size(); ++id) {
        mix(words.piece(id, "data::tokenizer"));
        number(words.is_word(id));
      }
      for (auto const& step : spec.steps ? fused(*spec.steps) : steps_of(find_split_rule(spec.split))) {
        mix(step.pattern);
        number(int(step.how) * 4 + int(step.invert) * 2 + int(step.prefix_space));
      }
      for (auto const& entry : spec.merges) mix(entry);
      for (auto const& t : added) {
        number(t.id);
        mix(t.content);
        number(int(t.special) * 16 + int(t.single_word) * 8 + int(t.lstrip) * 4 + int(t.rstrip) * 2 +
               int(t.normalized));
      }
      for (std::int32_t const v :
           {std::int32_t(ignore_merges), add_bos ? bos : -1, add_eos ? eos : -1, unknown, std::int32_t(add_bos),
            std::int32_t(add_eos), std::int32_t(fuse_unknown && unknown >= 0 && lacks_bytes),
            std::int32_t(drop_lacking && unknown < 0 && lacks_bytes), std::int32_t(spec.normalization)})
        number(v);
      identity = h;
    }

    void check_text(std::string_view text) const {
      auto const bad = find_invalid_utf8(text);
      if (bad != std::string_view::npos)
        throw config_error("data::tokenizer::encode", "invalid UTF-8 at byte " + std::to_string(bad),
                           "UTF-8 text", "convert the text first");
      if (unknown >= 0 || drop_lacking || !lacks_bytes) return;
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
      splitter.split(text, m.split, [&](std::string_view word) {
        if (auto const known = m.cache.find(word)) {
          out.insert(out.end(), known->begin(), known->end());
          return;
        }
        m.ids.clear();
        auto const whole = ignore_merges ? words.find_word(word) : -1;
        if (whole >= 0) {
          m.ids.push_back(whole);
        } else {
          read_bytes(word, m.bytes);
          pairs.apply(m.bytes, m.merging, m.ids);
        }
        m.cache.insert(word, m.ids);
        out.insert(out.end(), m.ids.begin(), m.ids.end());
      });
    }

    void read_bytes(std::string_view word, std::vector<std::int32_t>& bytes) const {
      bytes.clear();
      bool lacked = false;  // the byte before
      for (char const c : word) {
        auto const id = byte_ids[static_cast<unsigned char>(c)];
        if (id >= 0)
          bytes.push_back(id);
        else if (unknown >= 0 && !(lacked && fuse_unknown))
          bytes.push_back(unknown);
        lacked = id < 0;
      }
    }

    std::filesystem::path file;
    std::string source;
    bool ignore_merges;
    text_splitter splitter;
    vocabulary words;
    normalizer normal;
    added_tokens plain, normalized;  // looked for in the text as it is, and in normalized text
    byte_pairs pairs;
    std::int32_t bos, eos, unknown;
    bool fuse_unknown, drop_lacking, add_bos, add_eos;
    bool lacks_bytes = false;
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
      memory->split = s.splitter.make_memory();
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
