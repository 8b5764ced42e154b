#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "accrete/data/text_files.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/packed.hpp"

namespace ac = accrete;
namespace fs = std::filesystem;
using ac::data::text_format;
using Catch::Matchers::ContainsSubstring;

namespace {
std::vector<std::string> texts(fs::path const& path, text_format const& format = {}) {
  std::vector<std::string> all;
  ac::data::for_each_text(
      std::span(&path, 1), [&](ac::data::document_text const& d) { all.push_back(d.text); }, format);
  return all;
}
std::string lines(int count, std::size_t padding) {
  std::string text;
  for (int i = 0; i < count; ++i)
    text += "{\"id\": " + std::to_string(i) + ", \"text\": \"line " + std::to_string(i) +
            std::string(padding, 'x') + "\"}\n";
  return text;
}
}  // namespace

TEST_CASE("packed files hold the texts that they hold unpacked", "[data][text_stream]") {
  test::temporary_folder const folder;
  for (std::size_t const padding : {std::size_t(0), std::size_t(50), std::size_t(700000)}) {
    auto const text = lines(5, padding);
    auto const plain = texts(test::write_file(folder / "a.jsonl", text));
    REQUIRE(plain.size() == 5);
    REQUIRE(plain[4] == "line 4" + std::string(padding, 'x'));
    REQUIRE(texts(test::write_file(folder / "a.jsonl.gz", test::gzipped(text))) == plain);
    REQUIRE(texts(test::write_file(folder / "a.ndjson.zst", test::zstd_packed(text))) == plain);
    REQUIRE(texts(test::write_file(folder / "a.json.gz", test::gzipped(text))) == plain);
    REQUIRE(texts(test::write_file(folder / "b.txt.zst", test::zstd_packed(text))) ==
            std::vector<std::string>{text});
    REQUIRE(texts(test::write_file(folder / "b.txt.gz", test::gzipped(text))) ==
            std::vector<std::string>{text});
  }
  // Streams one after the other are one: what `cat` and parallel packers make.
  auto const half = lines(2, 9);
  auto const twice = texts(test::write_file(folder / "c.jsonl", half + half));
  REQUIRE(texts(test::write_file(folder / "c.jsonl.gz", test::gzipped(half) + test::gzipped(half))) == twice);
  REQUIRE(texts(test::write_file(folder / "c.jsonl.zst", test::zstd_packed(half) + test::zstd_packed(half))) ==
          twice);
  auto const found = ac::data::find_text_files(std::vector<fs::path>{folder.path()});
  REQUIRE(found.size() == 9);  // all of them, also in a folder
}

TEST_CASE("a packed file that is cut short or damaged is refused and never half of it taken",
          "[data][text_stream]") {
  test::temporary_folder const folder;
  auto const text = lines(200, 20);
  auto const whole = texts(test::write_file(folder / "a.jsonl", text));
  for (auto const& packed :
       {std::pair{"a.jsonl.gz", test::gzipped(text)}, std::pair{"a.jsonl.zst", test::zstd_packed(text)}}) {
    std::string const name = packed.first;
    auto const& bytes = packed.second;
    test::damaged_file file(folder / name, bytes);
    auto const path = folder / name;
    for (std::size_t bit = 0; bit < 8 * bytes.size(); bit += 37)
      file.with_bit_flipped(bit, [&] {
        auto const said = test::error_of([&] {
          auto const found = texts(path);
          if (name == "a.jsonl.gz" && !found.empty()) REQUIRE(found == whole);  // it has a checksum
        });
        REQUIRE((said.empty() || test::one_line(said)));
      });
    file.cut([](std::size_t) { return 13; },
             [&](std::size_t) {
               auto const said = test::error_of([&] { (void)texts(path); });
               REQUIRE_THAT(said, ContainsSubstring(path.string()));
               REQUIRE(test::one_line(said));
             });
  }
  auto const plain = test::write_file(folder / "b.txt.gz", "no gzip at all, only its name");
  REQUIRE_THROWS_WITH(texts(plain), ContainsSubstring("gzip data"));
  REQUIRE_THROWS_WITH(texts(test::write_file(folder / "b.txt.zst", "neither this")),
                      ContainsSubstring("zstd data"));
}

TEST_CASE("the field of a line is chosen", "[data][text_stream]") {
  test::temporary_folder const folder;
  auto const file =
      test::write_file(folder / "a.jsonl", "{\"text\": \"t\", \"content\": \"c\"}\n{\"content\": \"d\"}");
  REQUIRE(texts(file, {.field = "content"}) == std::vector<std::string>{"c", "d"});
  REQUIRE_THROWS_WITH(texts(file), ContainsSubstring("a.jsonl':2: got no \"text\""));
  REQUIRE_THROWS_WITH(texts(file, {.field = "con\"tent"}), ContainsSubstring("no \"con\\\"tent\""));
}

TEST_CASE("lines end with and without a carriage return, and the last one without an end",
          "[data][text_stream]") {
  test::temporary_folder const folder;
  auto const file =
      test::write_file(folder / "a.jsonl", "\xEF\xBB\xBF{\"text\": \"a\"}\r\n\n  \r\n{\"text\": \"b\"}");
  REQUIRE(texts(file) == std::vector<std::string>{"a", "b"});
}

TEST_CASE("reading goes on from where any text begins", "[data][text_stream]") {
  test::temporary_folder const folder;
  std::vector<fs::path> const files{test::write_file(folder / "a.txt", "first\nfile"),
                                    test::write_file(folder / "b.jsonl", lines(6, 3) + "\n\n" + lines(2, 0)),
                                    test::write_file(folder / "c.jsonl.gz", test::gzipped(lines(4, 300))),
                                    test::write_file(folder / "d.md", "last")};
  std::vector<ac::data::raw_text> all;
  ac::data::raw_text raw;
  ac::data::text_stream stream(files, {});
  while (stream.next(raw)) all.push_back(raw);
  REQUIRE(all.size() == 14);
  REQUIRE(all[7].name() == files[1].string() + ":9");
  for (std::size_t from = 0; from < all.size(); ++from) {
    ac::data::text_stream rest(files, {}, all[from].begin);
    for (std::size_t i = from; i < all.size(); ++i) {
      REQUIRE(rest.next(raw));
      REQUIRE(raw.bytes == all[i].bytes);
      REQUIRE(raw.begin == all[i].begin);
    }
    REQUIRE_FALSE(rest.next(raw));
  }
}

TEST_CASE("a text that memory was not asked for is refused", "[data][text_stream]") {
  test::temporary_folder const folder;
  text_format const small{.max_text_bytes = 1000};
  std::string const long_text(1001, 'x');
  REQUIRE_THROWS_WITH(texts(test::write_file(folder / "a.txt", long_text), small),
                      ContainsSubstring("more than 1000 bytes"));
  REQUIRE(texts(test::write_file(folder / "a.txt", long_text.substr(1)), small).size() == 1);
  auto const json = "{\"text\": \"a\"}\n{\"text\": \"" + long_text + "\"}\n";
  REQUIRE_THROWS_WITH(texts(test::write_file(folder / "a.jsonl", json), small),
                      ContainsSubstring("a.jsonl':2: got a text of more"));
  // A bomb is stopped where it passes the limit.
  auto const bomb = test::gzipped(std::string(30'000'000, 'x'));
  REQUIRE(bomb.size() < 100'000);
  REQUIRE_THROWS_WITH(texts(test::write_file(folder / "b.txt.gz", bomb), small),
                      ContainsSubstring("more than 1000 bytes"));
}
