#include <sys/stat.h>
#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "accrete/io/atomic_file.hpp"
#include "accrete/io/content_hash.hpp"
#include "accrete/io/line_log.hpp"
#include "accrete/io/mapped_file.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"

namespace fs = std::filesystem;
using accrete::io::atomic_file;
using accrete::io::content_hash;
using accrete::io::line_log;
using accrete::io::mapped_file;
using test::error_of;
using test::one_line;

TEST_CASE("mapped_file shows a file's bytes and keeps them at their address when moved", "[io][mapped_file]") {
  test::temporary_folder folder;
  mapped_file file(test::write_file(folder / "a", "hello"));
  auto const bytes = file.bytes();
  CHECK(std::string_view(reinterpret_cast<char const*>(bytes.data()), bytes.size()) == "hello");
  mapped_file moved(std::move(file));
  CHECK(moved.bytes().data() == bytes.data());
  CHECK(file.bytes().empty());  // NOLINT: what is left must be safe to destroy
}

TEST_CASE("mapped_file refuses in one line what is no file with bytes", "[io][mapped_file]") {
  test::temporary_folder folder;
  auto const refusal = [](fs::path const& path) { return error_of([&] { mapped_file file(path); }); };
  auto const missing = refusal(folder / "none");
  auto const directory = refusal(folder.path());
  auto const empty = refusal(test::write_file(folder / "empty", ""));
  auto const device = refusal("/dev/null");
  CHECK_THAT(missing,
             Catch::ContainsSubstring("No such file") && Catch::ContainsSubstring((folder / "none").string()));
  CHECK_THAT(directory, Catch::ContainsSubstring("a directory"));
  CHECK_THAT(empty, Catch::ContainsSubstring("an empty file"));
  CHECK_THAT(device, Catch::ContainsSubstring("a special file"));
  ::mkfifo((folder / "pipe").c_str(), 0600);
  CHECK_THAT(refusal(folder / "pipe"),
             Catch::ContainsSubstring("a special file"));  // and does not wait for a writer
  for (auto const& text : {missing, directory, empty, device}) CHECK(one_line(text));
}

TEST_CASE("atomic_file appears whole on commit and not at all without", "[io][atomic_file]") {
  test::temporary_folder folder;
  auto const path = test::write_file(folder / "table.csv", "old");
  {
    atomic_file file(path);
    file.write("new ").write("text");
    CHECK(file.size() == 8);
    CHECK(test::read_file(path) == "old");
  }
  CHECK(test::read_file(path) == "old");
  CHECK(folder.entries() == 1);
  {
    atomic_file file(path);
    file.write(std::string(300000, 'x')).write("end");
    file.commit();
    CHECK(one_line(error_of([&] { file.write("late"); })));
  }
  CHECK(test::read_file(path) == std::string(300000, 'x') + "end");
  CHECK(folder.entries() == 1);
  accrete::io::write_atomically(folder / "b", "");
  CHECK(test::read_file(folder / "b").empty());
}

TEST_CASE("atomic_file keeps two writers of one name apart", "[io][atomic_file]") {
  test::temporary_folder folder;
  atomic_file one(folder / "x"), two(folder / "x");
  one.write("one");
  two.write("two");
  one.commit();
  two.commit();
  CHECK(test::read_file(folder / "x") == "two");
  CHECK(folder.entries() == 1);
}

TEST_CASE("atomic_file leaves the old file and nothing else when the disk is full", "[io][atomic_file]") {
  test::temporary_folder folder;
  auto const path = test::write_file(folder / "weights", "old");
  for (std::size_t const size : {5000u, 700000u}) {  // fails in commit; fails in write
    std::string text;
    {
      test::file_size_limit limit(4096);
      text = error_of([&] {
        atomic_file file(path);
        file.write(std::string(size, 'x'));
        file.commit();
      });
    }
    CHECK(one_line(text));
    CHECK_THAT(text, Catch::ContainsSubstring(path.string()) && Catch::ContainsSubstring("after 4096 bytes"));
    CHECK(test::read_file(path) == "old");
    CHECK(folder.entries() == 1);
  }
}

TEST_CASE("atomic_file refuses places where no file can be", "[io][atomic_file]") {
  test::temporary_folder folder;
  test::write_file(folder / "file", "x");
  fs::create_directory(folder / "sub");
  auto const refusal = [](fs::path const& path) {
    return error_of([&] { accrete::io::write_atomically(path, "x"); });
  };
  CHECK_THAT(refusal(folder / "none/x"),
             Catch::ContainsSubstring("No such file") && Catch::ContainsSubstring("folder"));
  CHECK_THAT(refusal(folder / "file/x"), Catch::ContainsSubstring("Not a directory"));
  CHECK_THAT(refusal(folder / "sub"), Catch::ContainsSubstring("got a directory"));
  CHECK_THAT(refusal("/dev/full"),
             Catch::ContainsSubstring("got a special file"));  // never renamed over a device
  CHECK(one_line(refusal("/proc/accrete")));
  CHECK(folder.entries() == 2);
}

TEST_CASE("line_log appends whole lines and starts fresh when told", "[io][line_log]") {
  test::temporary_folder folder;
  {
    line_log log(folder / "log.jsonl");
    log.append(R"({"step":1})");
    CHECK(test::read_file(folder / "log.jsonl") == "{\"step\":1}\n");  // there before the log is closed
    CHECK(one_line(error_of([&] { log.append("a\nb"); })));
  }
  {
    line_log log(folder / "log.jsonl");
    log.append("{}");
  }
  CHECK(test::read_file(folder / "log.jsonl") == "{\"step\":1}\n{}\n");
  { line_log log(folder / "log.jsonl", line_log::start::fresh); }
  CHECK(test::read_file(folder / "log.jsonl").empty());
}

TEST_CASE("line_log drops a line that a crash cut short", "[io][line_log]") {
  test::temporary_folder folder;
  std::string const whole = "{\"a\":1}\n" + std::string(9000, 'y') + "\n";
  for (std::string const& torn :
       {std::string("{\"b"), std::string(5000, 'z'), std::string(4096, 'z'), std::string()}) {
    auto const path = test::write_file(folder / "log", whole + torn);
    {
      line_log log(path);
      log.append("next");
    }
    CHECK(test::read_file(path) == whole + "next\n");
  }
  auto const path = test::write_file(folder / "log", "no line at all");
  { line_log log(path); }
  CHECK(test::read_file(path).empty());
}

TEST_CASE("line_log reports a full disk and takes the cut line back", "[io][line_log]") {
  test::temporary_folder folder;
  std::string text;
  {
    line_log log(folder / "log");
    log.append("first");
    {
      test::file_size_limit limit(20);
      text = error_of([&] { log.append("a line that is too long for it"); });
    }
    CHECK(test::read_file(folder / "log") == "first\n");
    log.append("second");
  }
  CHECK(one_line(text));
  CHECK_THAT(text, Catch::ContainsSubstring((folder / "log").string()));
  CHECK(test::read_file(folder / "log") == "first\nsecond\n");
  auto const full = error_of([&] { line_log("/dev/full").append("x"); });
  CHECK_THAT(full,
             Catch::ContainsSubstring("No space left on device") && Catch::ContainsSubstring("bytes free"));
  CHECK(one_line(error_of([&] { line_log log(folder / "none/log"); })));
  CHECK(one_line(error_of([&] { line_log log(folder.path()); })));
}

TEST_CASE("content_hash follows from the bytes and not from how they came", "[io][content_hash]") {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += char(i * 7 % 251);
  auto const whole = content_hash().update(text).hex();
  CHECK(whole.size() == 32);
  for (std::size_t piece : {1u, 3u, 15u, 16u, 17u, 64u, 999u}) {
    content_hash hash;
    for (std::size_t at = 0; at < text.size(); at += piece)
      hash.update(std::string_view(text).substr(at, piece));
    CHECK(hash.hex() == whole);
  }
  content_hash held;  // nothing at all, from nowhere, in the midst of a block
  held.update(std::string_view("a")).update(std::string_view()).update(std::string_view("b"));
  CHECK(held.hex() == content_hash().update(std::string_view("ab")).hex());
}

TEST_CASE("content_hash tells apart bytes that differ anywhere or in number", "[io][content_hash]") {
  std::string text(257, '\0');
  std::vector<std::string> seen{content_hash().hex()};
  for (std::size_t n = 1; n <= 33; ++n) seen.push_back(content_hash().update(text.substr(0, n)).hex());
  for (std::size_t bit = 0; bit < text.size() * 8; ++bit) {
    std::string other = text;
    other[bit / 8] = char(1 << bit % 8);
    seen.push_back(content_hash().update(other).hex());
  }
  // two flips at once, where a weak mix would cancel: neighbouring words, the same bit
  for (std::size_t word = 0; word + 8 < text.size() - 8; word += 8)
    for (std::size_t bit = 0; bit < 64; ++bit) {
      std::string other = text;
      other[word + bit / 8] = char(1 << bit % 8);
      other[word + 8 + bit / 8] = char(1 << bit % 8);
      seen.push_back(content_hash().update(other).hex());
    }
  auto const count = seen.size();
  for (std::size_t half : {0u, 16u}) {  // each half alone tells them apart as well
    std::vector<std::string> part;
    for (auto const& each : seen) part.push_back(each.substr(half, 16));
    std::sort(part.begin(), part.end());
    CHECK(std::size_t(std::unique(part.begin(), part.end()) - part.begin()) == count);
  }
}
