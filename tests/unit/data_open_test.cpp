#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "accrete/data/open.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"

namespace ac = accrete;
namespace fs = std::filesystem;
using ac::data::cutting;
using Catch::Matchers::ContainsSubstring;
using ids = std::vector<std::int32_t>;
using sizes = std::vector<ac::index_t>;

namespace {
// Every byte is the token of its number.
ac::data::tokenizer_spec bytes() {
  ac::data::tokenizer_spec spec;
  for (unsigned b = 0; b < 256; ++b) {
    char const byte = char(b);
    spec.tokens.push_back(ac::data::gpt2_bytes.write({&byte, 1}));
  }
  return spec;
}
struct text_folder : test::temporary_folder {
  fs::path write(fs::path const& name, std::string_view text) const {
    fs::create_directories((path() / name).parent_path());
    return test::write_file(path() / name, text);
  }
};
std::vector<std::string> texts(ac::data::text_set const& all) {
  std::vector<std::string> found;
  for (auto const& d : all.documents) found.push_back(d.text);
  return found;
}
}  // namespace

TEST_CASE("a folder gives its text files in sorted order and passes over the rest", "[data][text_files]") {
  text_folder const folder;
  folder.write("b.txt", "B");
  folder.write("a/z.md", "Z");
  folder.write("a/y.RST", "Y");
  folder.write("c.rst.txt", "C");
  folder.write("d.pod", "=head1 D\n");
  folder.write("e.png", std::string("\0\1", 2));
  folder.write("f", "no extension");
  folder.write("g.txt", "");
  folder.write("h.md", " \n\t\r\n");
  folder.write("i.jsonl",
               "{\"text\": \"one\"}\n\n{\"id\": 3, \"text\": \"zwei \\u00fc\"}\r\n{\"text\": \"\"}\n");
  folder.write("j.jsonl", "\n");
  folder.write("k.txt", "\xEF\xBB\xBFmark");
  fs::create_symlink(folder.path() / "nowhere", folder.path() / "l.txt");
  auto const all = ac::data::read_text(folder.path());
  REQUIRE(texts(all) ==
          std::vector<std::string>{"Y", "Z", "B", "C", "=head1 D\n", "one", "zwei \xC3\xBC", "mark"});
  REQUIRE(all.num_empty == 3);  // a blank line is no text
  REQUIRE(all.documents[6].name == (folder.path() / "i.jsonl:3").string());
}

TEST_CASE("a file named by itself is text whatever its extension", "[data][text_files]") {
  text_folder const folder;
  std::vector<fs::path> const paths{folder.write("notes", "N"), folder.write("x.cpp", "X"),
                                    folder.write("b/a.txt", "A")};
  REQUIRE(texts(ac::data::read_text(paths)) == std::vector<std::string>{"N", "X", "A"});
}

TEST_CASE("text that cannot be used is refused in one line", "[data][text_files]") {
  text_folder const folder;
  folder.write("only/picture.png", "x");
  fs::create_directories(folder.path() / "empty");
  struct fault {
    fs::path path;
    char const* words;
  };
  std::vector<fault> const faults{
      {folder.path() / "missing", "nothing there"},
      {folder.path() / "empty", ".txt .md .rst .pod .jsonl"},
      {folder.path() / "only", "a folder without text"},
      {"/dev/null", "a special file"},
      {folder.write("binary.txt", std::string("ab\0cd", 5)), "a zero at byte 2"},
      {folder.write("latin.txt", "caf\xE9 noir"), "invalid UTF-8 at byte 3"},
      {folder.write("cut.txt", "abc\xE2\x82"), "invalid UTF-8 at byte 3"},
      {folder.write("a.jsonl", "{\"text\": \"x\"}\n{\"text\": \n"), "a.jsonl':2: got unexpected end of input"},
      {folder.write("b.jsonl", "{\"txt\": \"x\"}\n"), "b.jsonl':1: got no \"text\""},
      {folder.write("c.jsonl", "{\"text\": 5}\n"), "c.jsonl':1, \"text\": got 5"},
      {folder.write("d.jsonl", "[\"text\"]\n"), "d.jsonl':1: got an array"},
  };
  for (auto const& [path, message] : faults) {
    CAPTURE(path);
    REQUIRE_THROWS_WITH(ac::data::read_text(path), ContainsSubstring(message));
    REQUIRE(test::one_line(test::error_of([&path = path] { ac::data::read_text(path); })));
  }
}

TEST_CASE("opening text tokenizes each document by itself and cuts it", "[data][open]") {
  text_folder const folder;
  folder.write("a.txt", "abcdef");
  folder.write("b.txt", "x");
  folder.write("c.txt", "");
  folder.write("d.txt", "yz");
  ac::data::tokenizer const words(bytes());
  auto const cut = ac::data::open(folder.path(), words, {{cutting::first, 4}});
  REQUIRE(cut.tokens == ids{'a', 'b', 'c', 'd', 'y', 'z'});
  REQUIRE(cut.offsets == sizes{0, 4, 6});
  REQUIRE(cut.origins == sizes{0, 2});
  REQUIRE(cut.num_empty == 1);
  REQUIRE(cut.dropped == 1);
  auto const windows = ac::data::open(folder.path(), words, {{cutting::windows, 4}});
  REQUIRE(windows.offsets == sizes{0, 4, 6, 8});

  auto spec = bytes();
  spec.bos = 7;
  spec.add_bos = true;
  auto const begun = ac::data::open(folder.path() / "d.txt", ac::data::tokenizer(spec));
  REQUIRE(begun.tokens == ids{7, 'y', 'z'});
}

TEST_CASE("opening text that holds no document is refused", "[data][open]") {
  text_folder const folder;
  folder.write("a.txt", "");
  folder.write("b.txt", "x");
  ac::data::tokenizer const words(bytes());
  REQUIRE_THROWS_WITH(ac::data::open(folder.path(), words),
                      ContainsSubstring("0 documents (1 empty texts, 1 of fewer than 2 tokens)"));
  REQUIRE_THROWS_AS(ac::data::open(folder.path(), words, {{cutting::first, 1}}), ac::config_error);
}

TEST_CASE("a character without a token is refused with the name of its file", "[data][open]") {
  text_folder const folder;
  folder.write("a.txt", "ab!");
  ac::data::tokenizer_spec spec;
  spec.tokens = {"a", "b"};
  REQUIRE_THROWS_WITH(ac::data::open(folder.path(), ac::data::tokenizer(spec)),
                      ContainsSubstring("a.txt'") && ContainsSubstring("at byte 2 the value 33"));
}

TEST_CASE("ids are read one document a line, past sixteen bits", "[data][open][U54]") {
  text_folder const folder;
  auto const file = folder.write("x.ids", "0 65535\t65536\r\n\n151643 151935\n9\n1 2 3");
  auto const all = ac::data::open_ids(file, 151936);
  REQUIRE(all.tokens == ids{0, 65535, 65536, 151643, 151935, 1, 2, 3});
  REQUIRE(all.offsets == sizes{0, 3, 5, 8});
  REQUIRE(all.origins == sizes{0, 1, 3});
  REQUIRE(all.num_empty == 1);
  REQUIRE(all.dropped == 1);
}

TEST_CASE("ids that are none are refused with line and word", "[data][open][U21]") {
  text_folder const folder;
  struct fault {
    char const* text;
    char const* words;
  };
  for (auto const& [text, message] : {fault{"1 2\n3 5\n", "x.ids':2: got '5' as token 1, expected 0 <= id < 5"},
                                      {"1 -4\n", "':1: got '-4'"},
                                      {"1 2x\n", "'2x'"},
                                      {"1 99999999999\n", "'99999999999'"},
                                      {"1,2\n", "'1,2'"},
                                      {"1 2.0", "'2.0'"},
                                      {"\n\n3\n", "0 documents"},
                                      {"", "0 documents"},
                                      {"1 \x01\n", "as token 1"}}) {
    auto const file = folder.write("x.ids", text);
    REQUIRE_THROWS_WITH(ac::data::open_ids(file, 5), ContainsSubstring(message));
  }
  REQUIRE_THROWS_AS(ac::data::open_ids(folder.path(), 5), ac::io_error);
  REQUIRE_THROWS_AS(ac::data::open_ids(folder.path() / "missing", 5), ac::io_error);
}
