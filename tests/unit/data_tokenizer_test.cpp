// labels: threads
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "accrete/data/tokenizer.hpp"
#include "support/catch.hpp"
#include "support/random_text.hpp"

namespace ac = accrete;
using ac::data::special;
using ac::data::tokenizer;
using ac::data::tokenizer_spec;
using Catch::Matchers::ContainsSubstring;
using ids = std::vector<std::int32_t>;
using words = std::vector<std::string>;

namespace {
// Every byte is the token of its number; `more` follow from 256 on.
tokenizer_spec bytes_and(words const& more, words const& merges) {
  tokenizer_spec spec;
  for (unsigned b = 0; b < 256; ++b) {
    char const byte = char(b);
    spec.tokens.push_back(ac::data::gpt2_bytes.write({&byte, 1}));
  }
  spec.tokens.insert(spec.tokens.end(), more.begin(), more.end());
  spec.merges = merges;
  return spec;
}
tokenizer_spec with_added(words const& added, std::int32_t kind) {
  tokenizer_spec spec = bytes_and({"ab"}, {"a b"});
  spec.kinds.assign(257, tokenizer_spec::normal);
  for (auto const& token : added) {
    spec.tokens.push_back(token);
    spec.kinds.push_back(kind);
  }
  return spec;
}
words split(std::vector<ac::data::split_step> const& steps, std::string_view text) {
  ac::data::text_splitter const splitter(steps, "here");
  auto memory = splitter.make_memory();
  words all;
  splitter.split(text, memory, [&](std::string_view word) { all.emplace_back(word); });
  return all;
}
words split(std::string_view rule, std::string_view text) {
  return split(ac::data::steps_of(ac::data::find_split_rule(rule)), text);
}
}  // namespace

TEST_CASE("byte pairs merge by rank, of equal ranks the leftmost first", "[data][tokenizer][U60]") {
  tokenizer const t(bytes_and({"ab", "abc"}, {"a b", "ab c"}));
  REQUIRE(t.encode("abc") == ids{257});
  REQUIRE(t.encode("ababcb") == ids{256, 257, 'b'});
  tokenizer const other(bytes_and({"bc", "ab"}, {"b c", "a b"}));
  REQUIRE(other.encode("abc") == ids{'a', 256});
  REQUIRE(other.encode("ab") == ids{257});
  tokenizer const same(bytes_and({"aa", "aaaa"}, {"a a", "aa aa"}));
  REQUIRE(same.encode("aaa") == ids{256, 'a'});
  REQUIRE(same.encode("aaaaaaa") == ids{257, 256, 'a'});
}

TEST_CASE("merges given as pairs are the same merges", "[data][tokenizer][U60]") {
  tokenizer_spec spec = bytes_and({"ab", "abc"}, {});
  spec.add_merge("a", "b");
  spec.add_merge("ab", "c");
  REQUIRE(spec.merges == words{"a b", "ab c"});
  REQUIRE(tokenizer(spec).encode("abc") == ids{257});
}

TEST_CASE("a merge that is no pair of tokens is refused and never skipped", "[data][tokenizer][U60]") {
  for (auto const* const entry : {"ab", "", " ", "a ", " b", "a b c", "a  b"})
    REQUIRE_THROWS_AS(tokenizer(bytes_and({"ab"}, {"a b", entry})), ac::io_error);
  REQUIRE_THROWS_WITH(tokenizer(bytes_and({"ab"}, {"a b", "ab"})), ContainsSubstring("merge 1 'ab'"));
  REQUIRE_THROWS_WITH(tokenizer(bytes_and({"ab"}, {"a c"})), ContainsSubstring("merge 0 'a c'"));
  REQUIRE_THROWS_AS(tokenizer(bytes_and({}, {"xx b"})), ac::io_error);
}

TEST_CASE("a tokenizer specification that contradicts itself is refused", "[data][tokenizer]") {
  REQUIRE_THROWS_AS(tokenizer(tokenizer_spec{}), ac::io_error);
  auto spec = bytes_and({}, {});
  spec.kinds = {1, 1};
  REQUIRE_THROWS_WITH(tokenizer(spec), ContainsSubstring("2 token kinds") && ContainsSubstring("256"));
  spec = bytes_and({}, {});
  spec.eos = 256;
  REQUIRE_THROWS_WITH(tokenizer(spec), ContainsSubstring("eos id 256"));
  spec.eos = 255;
  REQUIRE(tokenizer(spec).eos() == 255);
  spec.add_bos = true;
  REQUIRE_THROWS_WITH(tokenizer(spec), ContainsSubstring("bos"));
  for (auto const* const entry : {"a b", "\xE6\x9D\xB1", "\xC5", "\xC5\x90"}) {
    spec = bytes_and({entry}, {});
    REQUIRE_THROWS_WITH(tokenizer(spec), ContainsSubstring("token 256"));
  }
  spec = bytes_and({}, {});
  spec.split = "gpt-5";
  REQUIRE_THROWS_WITH(tokenizer(spec),
                      ContainsSubstring("'gpt-5'") && ContainsSubstring("gpt-2, smollm, qwen2, llama-bpe"));
}

TEST_CASE("ids past sixteen bits survive encode and decode", "[data][tokenizer][U54]") {
  tokenizer_spec spec = bytes_and({}, {"a b"});
  spec.kinds.assign(256, tokenizer_spec::normal);
  while (spec.tokens.size() < 151936) {
    spec.tokens.push_back("[PAD]");
    spec.kinds.push_back(tokenizer_spec::unused);
  }
  spec.tokens[151643] = "<|endoftext|>";
  spec.kinds[151643] = tokenizer_spec::control;
  spec.tokens[151935] = "ab";
  spec.kinds[151935] = tokenizer_spec::normal;
  tokenizer const t(spec);
  auto const found = t.encode("ab<|endoftext|>ab", special::parse);
  REQUIRE(found == ids{151935, 151643, 151935});
  REQUIRE(t.decode(found) == "ab<|endoftext|>ab");
  REQUIRE(t.is_control(151643));
  REQUIRE(t.is_control(65536));
  REQUIRE_FALSE(t.is_control(151935));
}

TEST_CASE("the Qwen split is not GPT-2's", "[data][tokenizer][U59]") {
  std::string const text = "foo(x):\n  bar 123 don't->y";
  REQUIRE(split("qwen2", text) ==
          words{"foo", "(x", "):\n", " ", " bar", " ", "1", "2", "3", " don", "'t", "->", "y"});
  REQUIRE(split("gpt-2", text) == words{"foo", "(", "x", "):", "\n ", " bar", " 123", " don", "'t", "->", "y"});
  REQUIRE(split("smollm", text) ==
          words{"foo", "(", "x", "):", "\n ", " bar", " ", "1", "2", "3", " don", "'t", "->", "y"});
  REQUIRE(split("llama-bpe", text + "4567") ==
          words{"foo", "(x", "):\n", " ", " bar", " ", "123", " don", "'t", "->", "y", "456", "7"});
}

TEST_CASE("the smollm split is digits apart and then GPT-2's split", "[data][tokenizer]") {
  REQUIRE(split("smollm", "a  1 \n2  b") == words{"a", "  ", "1", " \n", "2", " ", " b"});
  // U+11DE0 is a digit that no pattern knows as a number.
  for (std::string const more : {"", "\xF0\x91\xB7\xA0", " \xF0\x91\xB7\xA0 \xF0\x91\xB7\xA0"})
    for (std::uint64_t number = 0; number < 3000; ++number) {
      auto const text = more + test::random_text(number) + more;
      auto const expected = split({ac::data::digits_step(true), ac::data::gpt2_step()}, text);
      auto const found = split("smollm", text);
      REQUIRE(found == expected);
    }
  REQUIRE(ac::data::steps_of(ac::data::find_split_rule("smollm")).size() == 1);
}

TEST_CASE("words together are the text, whatever the split", "[data][tokenizer]") {
  for (auto const& rule : ac::data::split_rules)
    for (std::uint64_t number = 0; number < 1000; ++number) {
      auto const text = test::random_text(number);
      std::string together;
      for (auto const& word : split(rule.name, text)) together += word;
      REQUIRE(together == text);
    }
}

TEST_CASE("matches go where a step sends them", "[data][tokenizer]") {  // the words of `tokenizers` 0.23.3
  using ac::data::split_step;
  auto const at = [](split_step::behavior how, bool invert) {
    return split({split_step{"=", how, invert}}, "==a=b===cd=");
  };
  words const each{"=", "=", "a", "=", "b", "=", "=", "=", "cd", "="};
  REQUIRE(at(split_step::isolated, false) == each);
  REQUIRE(at(split_step::isolated, true) == each);
  REQUIRE(at(split_step::removed, false) == words{"a", "b", "cd"});
  REQUIRE(at(split_step::removed, true) == words{"=", "=", "=", "=", "=", "=", "="});
  REQUIRE(at(split_step::merged_with_previous, false) == words{"=", "=", "a=", "b=", "=", "=", "cd="});
  REQUIRE(at(split_step::merged_with_previous, true) == words{"=", "=a", "=b", "=", "=", "=cd", "="});
  REQUIRE(at(split_step::merged_with_next, false) == words{"=", "=a", "=b", "=", "=", "=cd", "="});
  REQUIRE(at(split_step::merged_with_next, true) == words{"=", "=", "a=", "b=", "=", "=", "cd="});
  REQUIRE(at(split_step::contiguous, false) == words{"==", "a", "=", "b", "===", "cd", "="});
  REQUIRE(at(split_step::contiguous, true) == words{"==", "a", "=", "b", "===", "cd", "="});
}

TEST_CASE("text that a pattern does not match becomes words too", "[data][tokenizer]") {
  ac::data::word_splitter const letters("[a-z]+|(?=9)");
  words all;
  letters.split("1ab 9\xC3\xA9z-", letters.make_memory(), [&](std::string_view w) { all.emplace_back(w); });
  REQUIRE(all == words{"1", "ab", " ", "9\xC3\xA9", "z", "-"});
  REQUIRE_THROWS_AS(ac::data::word_splitter("(a"), ac::config_error);
}

TEST_CASE("an added token is found between texts that are encoded as alone", "[data][tokenizer][U61]") {
  tokenizer const t(with_added({"<|x|>", "<|x|>y", "<|"}, tokenizer_spec::control));
  REQUIRE(t.encode(" <|x|> ", special::parse) == ids{' ', 257, ' '});
  for (std::string const a : {"", " ", "ab ", "a"})
    for (std::string const b : {"", " ", "b", "  ab"}) {
      auto expected = t.encode(a);
      expected.push_back(257);
      for (auto const id : t.encode(b)) expected.push_back(id);
      REQUIRE(t.encode(a + "<|x|>" + b, special::parse) == expected);
    }
  REQUIRE(t.encode("<|x|>y<|z", special::parse) == ids{258, 259, 'z'});  // the longest wins
  REQUIRE(t.encode("a<|x|>b") == ids{'a', '<', '|', 'x', '|', '>', 'b'});
  tokenizer const user(with_added({"<|x|>"}, tokenizer_spec::user_defined));
  REQUIRE(user.encode("a<|x|>b") == ids{'a', 257, 'b'});
  REQUIRE(user.encode("a<|x|>b", special::parse) == ids{'a', 257, 'b'});
}

TEST_CASE("decoding gives back every valid text", "[data][tokenizer][U61]") {
  for (auto const& rule : ac::data::split_rules) {
    auto spec = bytes_and({"ab", "\xC4\xA0\xC4\xA0"}, {"a b", "\xC4\xA0 \xC4\xA0"});
    spec.split = rule.name;
    tokenizer const t(spec);
    for (std::uint64_t number = 0; number < 2000; ++number) {
      auto const text = test::random_text(number);
      auto const back = t.decode(t.encode(text));
      REQUIRE(back == text);
    }
    REQUIRE(t.decode(t.encode("two  spaces   three \xF0\x9F\x91\xA9\xE2\x80\x8D")) ==
            "two  spaces   three \xF0\x9F\x91\xA9\xE2\x80\x8D");
    REQUIRE(t.encode("").empty());
  }
}

TEST_CASE("a word as long as a text takes no quadratic time", "[data][tokenizer]") {
  for (auto const& rule : ac::data::split_rules)
    for (char const c : {'a', ' ', '\n', '-', '7'}) {
      auto spec = bytes_and({"aa", "aaaa"}, {"a a", "aa aa"});
      spec.split = rule.name;
      tokenizer const t(spec);
      std::string const text(1 << 20, c);
      auto const found = t.encode(text);
      REQUIRE(found.size() == (c == 'a' ? text.size() / 4 : text.size()));
      REQUIRE(t.decode(found) == text);
    }
}

TEST_CASE("a match that is long and may go back at every step is found all the same", "[data][tokenizer]") {
  auto const found = split({ac::data::split_step{"(?:a|bc)+"}}, "x" + std::string(300000, 'a') + "bcy");
  REQUIRE(found == words{"x", std::string(300000, 'a') + "bc", "y"});
}

TEST_CASE("invalid UTF-8 is refused with its place", "[data][tokenizer]") {
  tokenizer const t(bytes_and({}, {}));
  struct fault {
    char const* bytes;
    int at;
  };
  for (auto const& [bytes, at] : {fault{"abc\xFF", 3},
                                  {"\x80", 0},
                                  {"a\xC0\x80", 1},
                                  {"ab\xC3", 2},
                                  {"\xED\xA0\x80", 0},
                                  {"\xE0\x9F\xBF", 0},
                                  {"\xF4\x90\x80\x80", 0},
                                  {"\xF0\x8F\xBF\xBF", 0},
                                  {"12345678\xE2\x82", 8},
                                  {"\xF5\x80\x80\x80", 0},
                                  {"\xE2\x28\xA1", 0},
                                  {"\xE2\x82\x28", 0},
                                  {"\xF1\x80\x80\x41", 0}})
    REQUIRE_THROWS_WITH(t.encode(bytes), ContainsSubstring("UTF-8 at byte " + std::to_string(at) + ","));
}

TEST_CASE("a byte without a token is the unknown token or an error", "[data][tokenizer]") {
  tokenizer_spec spec;
  spec.tokens = {"<unk>", "a", "b"};
  spec.kinds = {tokenizer_spec::control, tokenizer_spec::normal, tokenizer_spec::normal};
  REQUIRE_THROWS_WITH(tokenizer(spec).encode("abXa"),
                      ContainsSubstring("at byte 2 the value 88") && ContainsSubstring("unknown"));
  spec.unknown = 0;
  REQUIRE(tokenizer(spec).encode("abXa") == ids{1, 2, 0, 1});
}

TEST_CASE("an id outside of the vocabulary is refused", "[data][tokenizer]") {
  tokenizer const t(bytes_and({}, {}));
  REQUIRE_THROWS_WITH(t.decode(ids{1, 256}), ContainsSubstring("256") && ContainsSubstring("< 256"));
  REQUIRE_THROWS_AS(t.piece(-1), ac::config_error);
  REQUIRE_THROWS_AS(t.is_control(256), ac::config_error);
  REQUIRE(t.piece(65) == "A");
  REQUIRE(t.find("A") == 65);
  REQUIRE(t.find("AB") == -1);
}

TEST_CASE("the identity of a tokenizer covers what decides about tokens", "[data][tokenizer]") {
  auto const base = bytes_and({"ab", "ba"}, {"a b", "b a"});
  auto const identity = tokenizer(base).identity();
  REQUIRE(tokenizer(base).identity() == identity);
  auto changed = base;
  changed.merges = {"b a", "a b"};
  REQUIRE(tokenizer(changed).identity() != identity);
  changed = base;
  changed.split = "smollm";
  REQUIRE(tokenizer(changed).identity() != identity);
  changed = base;
  std::swap(changed.tokens[1], changed.tokens[2]);
  REQUIRE(tokenizer(changed).identity() != identity);
  changed = base;
  changed.unknown = 3;
  REQUIRE(tokenizer(changed).identity() != identity);
}

TEST_CASE("the word cache starts anew when it is full and gives the same tokens", "[data][tokenizer]") {
  ac::data::word_cache cache;
  for (std::int32_t i = 0; i < 200000; ++i) {
    auto const word = std::to_string(i);
    REQUIRE_FALSE(cache.find(word));
    cache.insert(word, ids{i, i + 1});
    auto const found = cache.find(word);
    REQUIRE(found);
    REQUIRE(ids(found->begin(), found->end()) == ids{i, i + 1});
  }
  REQUIRE(cache.size() <= ac::data::word_cache::max_words);
  std::string const longest(ac::data::word_cache::max_bytes + 1, 'x');
  cache.insert(longest, ids{1});
  REQUIRE_FALSE(cache.find(longest));
}

TEST_CASE("threads may encode with one tokenizer at once", "[data][tokenizer]") {
  tokenizer const t(bytes_and({"ab", "abc"}, {"a b", "ab c"}));
  words texts;
  for (std::uint64_t number = 0; number < 200; ++number) texts.push_back(test::random_text(number) + "ab abc");
  std::vector<ids> expected;
  for (auto const& text : texts) expected.push_back(t.encode(text));
  std::vector<std::vector<ids>> found(4);
  std::vector<std::thread> threads;
  for (std::size_t k = 0; k < found.size(); ++k)
    threads.emplace_back([&, k, copy = t] {
      for (auto const& text : texts) found[k].push_back(copy.encode(text));
    });
  for (auto& thread : threads) thread.join();
  for (auto const& one : found) REQUIRE(one == expected);
}
