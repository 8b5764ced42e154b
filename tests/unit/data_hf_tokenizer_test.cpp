#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "accrete/data/load_tokenizer.hpp"
#include "accrete/io/json.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/random_text.hpp"

namespace ac = accrete;
namespace fs = std::filesystem;
using ac::data::special;
using ac::data::tokenizer;
using Catch::Matchers::ContainsSubstring;
using ids = std::vector<std::int32_t>;

namespace {
fs::path fixtures() {
  return fs::path(__FILE__).parent_path() / ".." / "reference" / "tokenizers";
}

/// A tokenizer.json of all bytes and "ab", "abc", with one part replaced or added.
std::string with(std::string_view key, std::string const& value) {
  std::string vocab, all;
  for (unsigned b = 0; b < 256; ++b) {
    char const byte = char(b);
    vocab += ac::io::json_quote(ac::data::gpt2_bytes.write({&byte, 1})) + ":" + std::to_string(b) + ",";
  }
  std::vector<std::pair<std::string, std::string>> parts{
      {"model", R"({"type":"BPE","vocab":{)" + vocab + R"("ab":256,"abc":257},"merges":["a b",["ab","c"]]})"},
      {"normalizer", "null"},
      {"pre_tokenizer", R"({"type":"ByteLevel","add_prefix_space":false})"},
      {"added_tokens", R"([{"id":258,"content":"<|end|>","special":true,"normalized":false}])"},
      {"post_processor", "null"},
      {"decoder", R"({"type":"ByteLevel"})"},
      {"more", ""}};
  for (auto& [name, text] : parts)
    if (name == key) text = value;
  for (auto const& [name, text] : parts) {
    if (text.empty()) continue;
    all += (all.empty() ? "{" : ",") + (name == "more" ? text : "\"" + name + "\":" + text);
  }
  return all + "}";
}
/// The model with its members after "type" changed.
std::string model(std::string const& members) {
  auto file = with("", "");
  auto const begin = file.find(R"({"type":"BPE")");
  auto const end = file.find(R"("normalizer")") - 1;
  auto text = file.substr(begin, end - begin);
  return text.insert(text.size() - 1, "," + members);
}
}  // namespace

TEST_CASE("tokens are those of the Python package, whatever a file's rules", "[data][hf_tokenizer][U59][U61]") {
  auto const text = test::read_file(fixtures() / "tokenizer_cases.json");
  auto const file = ac::io::json::parse(text, "tokenizer_cases.json");
  auto const& texts = file.find("texts")->items();
  REQUIRE(file.find("expected")->items().size() == 8);
  for (auto const& expected : file.find("expected")->items()) {
    auto const name = expected.find("tokenizer")->as_string("name");
    tokenizer const t(ac::data::tokenizer_spec_from_hf(fixtures() / name));
    bool const as_text = expected.find("as_text")->as_bool("as_text");
    auto const& lists = expected.find("ids")->items();
    REQUIRE(lists.size() == texts.size());
    for (std::size_t i = 0; i < lists.size(); ++i) {
      CAPTURE(name, as_text, i);
      ids wanted;
      for (auto const& id : lists[i].items()) wanted.push_back(std::int32_t(id.as_index("id")));
      auto const found = t.encode(texts[i].as_string("text"), as_text ? special::as_text : special::parse);
      REQUIRE(found == wanted);
    }
  }
}

TEST_CASE("decoding gives back every text in the form that the file asks for", "[data][hf_tokenizer][U61]") {
  for (auto const* const name : {"tokenizer_qwen3.json", "tokenizer_llama3.json", "tokenizer_smollm2.json"}) {
    auto const spec = ac::data::tokenizer_spec_from_hf(fixtures() / name);
    tokenizer const t(spec);
    ac::data::normalizer const form(spec.normalization);
    int changed = 0;
    for (std::uint64_t number = 0; number < 3000; ++number) {
      auto const text = test::random_text(number);
      std::string memory;
      std::string const expected(form.apply(text, memory));
      changed += expected != text;
      REQUIRE(t.decode(t.encode(text)) == expected);
    }
    REQUIRE((changed > 10) == (name == std::string_view("tokenizer_qwen3.json")));
  }
}

TEST_CASE("normalization is what Hugging Face's tokenizers take for it", "[data][normal_form]") {
  using ac::data::normal_form;
  struct pair {
    char const* text;
    char const* normal;
  };
  auto const check = [](normal_form form, std::vector<pair> const& pairs) {
    ac::data::normalizer const n(form);
    std::string memory;
    for (auto const& [text, normal] : pairs) {
      CAPTURE(text);
      REQUIRE(n.apply(text, memory) == normal);
      std::string const again(n.apply(text, memory));
      REQUIRE(n.apply(again, memory) == again);
    }
  };
  check(normal_form::nfc, {{"", ""},
                           {"plain", "plain"},
                           {"e\xCC\x81", "\xC3\xA9"},  // e + acute
                           {"x e\xCC\x81 y o\xCC\x88", "x \xC3\xA9 y \xC3\xB6"},
                           {"q\xCC\x81\xCC\xA7", "q\xCC\xA7\xCC\x81"},                // marks in their order
                           {"\xE1\x84\x80\xE1\x85\xA1\xE1\x86\xA8", "\xEA\xB0\x81"},  // Hangul
                           {"\xE2\x84\xAB", "\xC3\x85"},                  // the sign of the angstrom
                           {"\xE0\xA5\x98", "\xE0\xA4\x95\xE0\xA4\xBC"},  // excluded from composition
                           {"\xEF\xAC\x81", "\xEF\xAC\x81"},              // a ligature stays
                           // Unicode 13's composition and Unicode 14's marks: not for those tables.
                           {"\xF0\x91\xA4\xB5\xF0\x91\xA4\xB0", "\xF0\x91\xA4\xB5\xF0\x91\xA4\xB0"},
                           {"\xF0\x91\xA4\xB8", "\xF0\x91\xA4\xB8"},
                           {"a\xE1\xB7\xBA\xCC\xB4\xCC\x81", "a\xE1\xB7\xBA\xCC\xB4\xCC\x81"},
                           {"a\xE1\xB7\xBA\xCC\x81\xCC\xB4", "a\xE1\xB7\xBA\xCC\xB4\xCC\x81"}});
  check(normal_form::nfd,
        {{"\xC3\xA9", "e\xCC\x81"}, {"\xEA\xB0\x81", "\xE1\x84\x80\xE1\x85\xA1\xE1\x86\xA8"}});
  check(normal_form::nfkc, {{"\xEF\xAC\x81 \xC2\xB2", "fi 2"}, {"e\xCC\x81", "\xC3\xA9"}});
  check(normal_form::nfkd, {{"\xEF\xAC\x81\xC3\xA9", "fie\xCC\x81"}});
}

TEST_CASE("merges may be strings or pairs; a later word needs no list of kinds", "[data][hf_tokenizer][U60]") {
  test::temporary_folder const folder;
  auto const file = test::write_file(folder / "tokenizer.json", with("", ""));
  for (auto const& path : {file, folder.path()}) {
    auto const t = ac::data::load_tokenizer(path);
    REQUIRE(t.encode("abcab x<|end|>", special::parse) == ids{257, 256, ' ', 'x', 258});
    REQUIRE(t.vocab_size() == 259);
    REQUIRE(t.is_control(258));
    REQUIRE(t.source() == "'" + file.string() + "'");
  }
}

TEST_CASE("an identity tells what tokens a text gets, not how a file says it", "[data][hf_tokenizer]") {
  test::temporary_folder const folder;
  auto const file = test::write_file(folder / "tokenizer.json", with("", ""));
  auto const identity = ac::data::load_tokenizer(file).identity();
  auto by_hand = ac::data::tokenizer_spec_from_hf(file);
  by_hand.steps.reset();  // by names instead
  by_hand.added.reset();
  by_hand.split = "gpt-2";
  by_hand.eos = 258;             // known, and not put anywhere
  by_hand.drop_lacking = false;  // no byte lacks a token
  REQUIRE(tokenizer(by_hand).identity() == identity);
  by_hand.add_eos = true;
  REQUIRE(tokenizer(by_hand).identity() != identity);
  for (auto const& [key, value] :
       {std::pair{"normalizer", R"({"type":"NFC"})"}, std::pair{"pre_tokenizer", R"({"type":"ByteLevel"})"},
        std::pair{"added_tokens", R"([{"id":258,"content":"<|end|>","special":true,"normalized":true}])"},
        std::pair{"added_tokens", R"([{"id":258,"content":"<|fin|>","special":true,"normalized":false}])"}}) {
    test::write_file(file, with(key, value));
    REQUIRE(ac::data::load_tokenizer(file).identity() != identity);
  }
}

TEST_CASE("what begins and ends a text comes out of the files that say so", "[data][hf_tokenizer]") {
  test::temporary_folder const folder;
  auto const load = [&] { return ac::data::load_tokenizer(folder.path()); };
  test::write_file(folder / "tokenizer.json", with("", ""));
  REQUIRE((load().bos() == -1 && load().eos() == -1 && !load().add_bos()));
  test::write_file(folder / "config.json", R"({"bos_token_id": 7, "eos_token_id": [8, 9]})");
  REQUIRE((load().bos() == 7 && load().eos() == 8));
  test::write_file(folder / "generation_config.json", R"({"eos_token_id": 10})");
  REQUIRE((load().bos() == 7 && load().eos() == 10));
  test::write_file(folder / "tokenizer_config.json",
                   R"({"eos_token": {"content": "<|end|>"}, "bos_token": "ab", "add_bos_token": true})");
  REQUIRE((load().bos() == 256 && load().eos() == 258 && load().add_bos() && !load().add_eos()));
  auto const front =
      R"({"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"x"}},{"Sequence":{"id":"A"}},)"
      R"({"SpecialToken":{"id":"y"}}],"pair":[],"special_tokens":{"x":{"ids":[258]},"y":{"ids":[3]}}})";
  test::write_file(folder / "tokenizer.json", with("post_processor", front));
  test::write_file(folder / "tokenizer_config.json", R"({"eos_token": "ab"})");
  auto const t = load();
  REQUIRE((t.bos() == 258 && t.add_bos() && t.eos() == 3 && t.add_eos()));
  test::write_file(folder / "tokenizer_config.json", R"({"add_bos_token": false})");
  REQUIRE_FALSE(load().add_bos());
  test::write_file(folder / "tokenizer_config.json", R"({"eos_token": "<|none|>"})");
  REQUIRE_THROWS_WITH(load(), ContainsSubstring("tokenizer_config.json'") && ContainsSubstring("'<|none|>'"));
}

TEST_CASE("what a tokenizer.json says and nobody understands is refused by name", "[data][hf_tokenizer]") {
  test::temporary_folder const folder;
  auto const split = [](std::string const& pattern) {
    return R"({"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":)" +
           ac::io::json_quote(pattern) + R"(},"behavior":"Isolated"},{"type":"ByteLevel","use_regex":false}]})";
  };
  struct fault {
    std::string file;
    char const* words;
  };
  std::vector<fault> const faults{
      {"", "an empty file"},
      {"{", "JSON"},
      {"[]", "an array"},
      {"{}", "tokenizer.model: got null"},
      {with("more", "\"colour\":1"), "'colour'"},
      {with("model", R"({"type":"WordPiece"})"), "'WordPiece', expected 'BPE'"},
      {with("model", R"({"type":"BPE","vocab":{},"merges":[]})"), "tokenizer.model.vocab"},
      {with("model", R"({"type":"BPE","vocab":{"a":0,"b":0},"merges":[]})"), "id 0 twice"},
      {with("model", R"({"type":"BPE","vocab":{"a":99999999},"merges":[]})"), "99999999"},
      {with("model", R"({"type":"BPE","vocab":{"a":-1},"merges":[]})"), "got -1"},
      {with("model", R"({"type":"BPE","vocab":{"a":1.5},"merges":[]})"), "got 1.5"},
      {with("model", R"({"type":"BPE","vocab":{"a":0},"merges":["a b"]})"), "merge 0 'a b'"},
      {with("model", R"({"type":"BPE","vocab":{"a":0},"merges":[["a"]]})"), "merges[0]"},
      {with("model", model("\"dropout\":0.1")), "dropout: got 0.1"},
      {with("model", model("\"end_of_word_suffix\":\"</w>\"")), "end_of_word_suffix"},
      {with("model", model("\"unk_token\":\"<unk>\"")), "unk_token"},
      {with("model", model("\"sparkle\":true")), "'sparkle'"},
      {with("model", R"({"type":"BPE","vocab":{"a":0},"merges":[],"byte_fallback":true})"), "byte_fallback"},
      {with("normalizer", R"({"type":"Lowercase"})"), "normalizer: got 'Lowercase'"},
      {with("normalizer", R"({"type":"Sequence","normalizers":[{"type":"NFC"},{"type":"NFKD"}]})"),
       "normalizers[1]"},
      {with("pre_tokenizer", "null"), "no ByteLevel"},
      {with("pre_tokenizer", R"({"type":"Metaspace"})"), "'Metaspace'"},
      {with("pre_tokenizer", split("a(?<n>b)")), "'(?<n' at byte 1"},
      {with("pre_tokenizer", split("a\\b")), "'\\b' at byte 1"},
      {with("pre_tokenizer", split("[a&&b]")), "'&&'"},
      {with("pre_tokenizer", split("[[:alpha:]]")), "'[:'"},
      {with("pre_tokenizer", split("[^\\S]")), "'\\S'"},
      {with("pre_tokenizer", split("a{2}+")), "}+"},
      {with("pre_tokenizer", split("(a)\\1")), "'\\1'"},
      {with("pre_tokenizer", split("\\p{Emoji}")), "'\\p{Emoji}'"},
      {with("pre_tokenizer", split("\\xE9")), "\\xE9"},
      {with("pre_tokenizer", split("(a")), "parenthesis"},
      {with("pre_tokenizer", R"({"type":"Sequence","pretokenizers":[{"type":"ByteLevel"},{"type":"Digits"}]})"),
       "pretokenizers[1]"},
      {with("post_processor", R"({"type":"BertProcessing"})"), "'BertProcessing'"},
      {with("decoder", R"({"type":"Metaspace"})"), "decoder: got 'Metaspace'"},
      {with("added_tokens", R"([{"id":258,"content":""}])"), "added_tokens[0]"},
      {with("added_tokens", R"([{"id":4,"content":"<x>"}])"), "'<x>' of id 4"},
      {with("added_tokens", R"([{"id":258,"content":"ab"}])"), "256, its id in the vocabulary"},
      {with("added_tokens", R"([{"id":258,"content":"<x>"},{"id":258,"content":"<y>"}])"), "id 258 twice"},
      {with("added_tokens", R"([{"id":2000000000,"content":"<x>"}])"), "2000000000"},
  };
  for (auto const& [text, words] : faults) {
    CAPTURE(words, text.substr(0, 60));
    auto const file = test::write_file(folder / "tokenizer.json", text);
    auto const said = test::error_of([&] { (void)ac::data::load_tokenizer(file); });
    REQUIRE_THAT(said, ContainsSubstring(words));
    REQUIRE_THAT(said, ContainsSubstring(file.string()));
    REQUIRE(test::one_line(said));
  }
}

TEST_CASE("patterns mean in PCRE2 what they mean in their file", "[data][oniguruma]") {
  auto const p = [](char const* pattern) { return ac::data::pcre2_pattern(pattern, "here"); };
  REQUIRE(p("a+?b*+c??") == "a+?b*+c??");
  REQUIRE(p("(ab|c){2,3}?") == "(?:ab|c){2,3}?");
  REQUIRE(p("a{,3}") == "a{0,3}");
  REQUIRE(p("^x$") == "(?m:^)x(?m:$)");
  REQUIRE(p("\\s[^\\s]") == "[\\p{Z}\\t-\\r\\x{85}][^\\p{Z}\\t-\\r\\x{85}]");
  REQUIRE(p("\\v\\u4e00\\x41") == "\\x{b}\\x{4e00}\\x{41}");
  REQUIRE(p("(?i)ab") == "(?i)ab");
  REQUIRE(p("\\P{Lt}\\p{^Lt}\\p{Lt}") == "[^\\p{Lt}][^\\p{Lt}][\\p{Lt}]");
  REQUIRE(ac::data::pcre2_literal("a.b\xC3\xA9") == "a\\.b\xC3\xA9");
}

TEST_CASE("a damaged tokenizer.json is read or refused in one line", "[data][hf_tokenizer]") {
  test::temporary_folder const folder;
  test::damaged_file file(folder / "tokenizer.json", with("", ""));
  auto const look = [&] {
    auto const said = test::error_of([&] { (void)ac::data::load_tokenizer(folder.path()).encode("abc 1"); });
    REQUIRE((said.empty() || test::one_line(said)));
  };
  for (std::size_t bit = 0; bit < 8 * file.good().size(); bit += 101) file.with_bit_flipped(bit, look);
  file.cut([](std::size_t) { return 211; }, [&](std::size_t) { look(); });
}
