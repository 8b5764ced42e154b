// labels: threads
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "accrete/data/document_order.hpp"
#include "accrete/data/open.hpp"
#include "accrete/data/prepare.hpp"
#include "accrete/data/split_validation.hpp"
#include "support/catch.hpp"
#include "support/child.hpp"
#include "support/files.hpp"
#include "support/packed.hpp"
#include "support/random_text.hpp"

namespace ac = accrete;
namespace fs = std::filesystem;
using ac::index_t;
using ac::data::cutting;
using ac::data::prepare_options;
using Catch::Matchers::ContainsSubstring;
using ids = std::vector<std::int32_t>;
using sizes = std::vector<index_t>;

namespace {
// Every byte is the token of its number; after them as many as the vocabulary shall have.
ac::data::tokenizer bytes(index_t vocabulary = 256) {
  ac::data::tokenizer_spec spec;
  for (unsigned b = 0; b < 256; ++b) {
    char const byte = char(b);
    spec.tokens.push_back(ac::data::gpt2_bytes.write({&byte, 1}));
  }
  spec.kinds.assign(256, ac::data::tokenizer_spec::normal);
  for (index_t i = 256; i < vocabulary; ++i) {
    spec.tokens.push_back("<" + std::to_string(i) + ">");
    spec.kinds.push_back(ac::data::tokenizer_spec::unused);
  }
  return ac::data::tokenizer(spec);
}

/// A folder of text of all kinds.
struct text_folder : test::temporary_folder {
  text_folder() {
    std::string lines;
    for (std::uint64_t i = 0; i < 150; ++i)
      lines += "{\"text\": " + ac::io::json_quote(test::random_text(i)) + "}\n" + (i % 40 == 0 ? "\n" : "");
    test::write_file(*this / "a.txt", "one text of a whole file");
    test::write_file(*this / "b.jsonl", lines);
    test::write_file(*this / "c.txt", " \n");
    test::write_file(*this / "d.jsonl.gz", test::gzipped(lines.substr(0, lines.find('\n', 3000) + 1)));
    test::write_file(*this / "e.txt", "x");
    test::write_file(*this / "f.txt.zst", test::zstd_packed(std::string(300, 'z')));
  }
  [[nodiscard]] std::vector<fs::path> paths() const { return {path()}; }
};
prepare_options small(int threads = 1) {
  return {.cut = {cutting::windows, 16}, .shard_tokens = 500, .threads = threads};
}
/// All files of a folder, end to end with their names.
std::string contents(fs::path const& folder) {
  std::vector<fs::path> files(fs::directory_iterator(folder), fs::directory_iterator{});
  std::sort(files.begin(), files.end());
  std::string all;
  for (auto const& f : files) all += f.filename().string() + "\n" + test::read_file(f) + "\n";
  return all;
}
fs::path made(fs::path const& folder) {
  fs::create_directories(folder);
  return folder;
}
}  // namespace

TEST_CASE("shards hold the documents that reading the text gives", "[data][prepare]") {
  text_folder const text;
  test::temporary_folder const out;
  auto const words = bytes();
  for (auto const how : {cutting::windows, cutting::first}) {
    auto options = small(2);
    options.cut.how = how;
    auto const folder = made(out / options.cut.name());
    auto const done = ac::data::prepare(text.paths(), words, folder, options);
    auto const read = ac::data::open(text.path(), words, {options.cut});
    auto const mapped = ac::data::open(folder, words, {options.cut});
    REQUIRE(done.finished);
    REQUIRE(done.shards > (how == cutting::windows ? 8 : 3));
    REQUIRE(index_t(ac::data::shards_in(folder).size()) == done.shards);
    REQUIRE(mapped.num_documents() == read.num_documents());
    REQUIRE(mapped.num_tokens() == read.num_tokens());
    REQUIRE((mapped.num_origins == read.num_origins && mapped.dropped == read.dropped &&
             mapped.num_empty == read.num_empty));
    REQUIRE((done.documents == read.num_documents() && done.tokens == read.num_tokens() &&
             done.texts == read.num_origins));
    REQUIRE((done.dropped == read.dropped && done.empty == read.num_empty && read.num_empty > 1));
    for (index_t d = 0; d < read.num_documents(); ++d) {
      REQUIRE(mapped.length(d) == read.length(d));
      REQUIRE(std::ranges::equal(mapped.document(d), read.document(d)));
    }
    // A batch of one is a batch of the other.
    ac::data::ragged_batch a, b;
    ac::data::document_iterator from_read(read, whole_shard(read, ac::seed{3}), ac::seed{3});
    ac::data::document_iterator from_shards(mapped, whole_shard(mapped, ac::seed{3}), ac::seed{3});
    for (int step = 0; step < 50; ++step) {
      from_read.next_batch(a, 64);
      from_shards.next_batch(b, 64);
      REQUIRE((a.tokens == b.tokens && a.targets == b.targets && a.offsets == b.offsets));
    }
  }
}

TEST_CASE("shards do not depend on the number of threads", "[data][prepare]") {
  text_folder const text;
  test::temporary_folder const out;
  std::string first;
  for (int const threads : {1, 2, 5}) {
    auto const folder = made(out / std::to_string(threads));
    ac::data::prepare(text.paths(), bytes(), folder, small(threads));
    if (first.empty()) first = contents(folder);
    REQUIRE(contents(folder) == first);
  }
}

TEST_CASE("a call that was stopped is taken up, to the same bytes", "[data][prepare]") {
  text_folder const text;
  test::temporary_folder const out;
  auto const words = bytes();
  auto const whole = made(out / "whole");
  ac::data::prepare(text.paths(), words, whole, small());
  auto const expected = contents(whole);
  auto const shards = ac::data::shards_in(whole).size();
  for (std::size_t kept = 0; kept <= shards; ++kept) {  // as if it had been killed after so many
    auto const folder = made(out / ("kept" + std::to_string(kept)));
    for (std::size_t k = 0; k < kept; ++k)
      fs::copy_file(whole / ac::data::shard_name(index_t(k)), folder / ac::data::shard_name(index_t(k)));
    test::write_file(folder / "tokens-00003.safetensors.tmp.4711.0", "half of it");
    if (kept < shards) REQUIRE_THROWS_AS(ac::data::open(folder, words, {small().cut}), ac::io_error);
    auto const done = ac::data::prepare(text.paths(), words, folder, small(2));
    REQUIRE(done.finished);
    REQUIRE(done.resumed == index_t(kept));
    REQUIRE(done.shards == index_t(shards));
    REQUIRE(contents(folder) == expected);
  }
  auto const folder = made(out / "stopped");
  auto const done = ac::data::prepare(text.paths(), words, folder, small(), [](auto const&) { return false; });
  REQUIRE_FALSE(done.finished);
  REQUIRE(ac::data::prepare(text.paths(), words, folder, small()).finished);
  REQUIRE(contents(folder) == expected);
}

TEST_CASE("a call that is killed at any moment is taken up, to the same bytes", "[data][prepare][U56]") {
  text_folder const text;
  test::temporary_folder const out;
  auto const words = bytes();
  auto const whole = made(out / "whole");
  ac::data::prepare(text.paths(), words, whole, small());
  auto const expected = contents(whole);
  int killed = 0;
  for (int attempt = 0; attempt < 20; ++attempt) {
    auto const folder = made(out / std::to_string(attempt));
    auto const child = test::start_child([&] { ac::data::prepare(text.paths(), words, folder, small(2)); });
    ::usleep(useconds_t(200 + 1500 * attempt));
    ::kill(child, SIGKILL);
    killed += WIFSIGNALED(test::status_of(child)) ? 1 : 0;
    REQUIRE(ac::data::prepare(text.paths(), words, folder, small()).finished);
    fs::remove(folder / ".lock");  // a killed process leaves it, and it locks nobody out
    REQUIRE(contents(folder) == expected);
  }
  REQUIRE(killed > 0);
}

TEST_CASE("a folder takes shards of one command only", "[data][prepare]") {
  text_folder const text;
  test::temporary_folder const out;
  auto const folder = made(out / "shards");
  auto const words = bytes();
  ac::data::prepare(text.paths(), words, folder, small());
  auto const expected = contents(folder);
  auto const again = [&](ac::data::tokenizer const& t, auto change, fs::path const& path) {
    auto options = small();
    change(options);
    auto const said = test::error_of([&] { ac::data::prepare(std::span(&path, 1), t, folder, options); });
    REQUIRE(contents(folder) == expected);
    REQUIRE((said.empty() || test::one_line(said)));
    return said;
  };
  auto const same = [](prepare_options&) {};
  REQUIRE(again(words, same, text.path()).empty());
  REQUIRE_THAT(again(bytes(257), same, text.path()), ContainsSubstring("tokenizer '"));
  REQUIRE_THAT(again(
                   words, [](auto& o) { o.cut.max_length = 17; }, text.path()),
               ContainsSubstring("length '16', expected '17'"));
  REQUIRE_THAT(again(
                   words, [](auto& o) { o.cut.how = cutting::first; }, text.path()),
               ContainsSubstring("cut 'windows', expected 'first'"));
  REQUIRE_THAT(again(
                   words, [](auto& o) { o.shard_tokens = 501; }, text.path()),
               ContainsSubstring("shard_tokens '500', expected '501'"));
  REQUIRE_THAT(again(
                   words, [](auto& o) { o.format.field = "content"; }, text.path()),
               ContainsSubstring("field 'text'"));
  REQUIRE_THAT(again(words, same, text / "a.txt"),
               ContainsSubstring("shards of other text (6 files, 'a.txt' first)"));
  test::write_file(text / "e.txt", "xy");  // the text has changed
  REQUIRE_THAT(again(words, same, text.path()), ContainsSubstring("shards of other text (6 files"));
  test::write_file(text / "e.txt", "x");
  fs::remove(folder / "tokens-00000.safetensors");
  REQUIRE_THROWS_WITH(ac::data::prepare(text.paths(), words, folder, small()),
                      ContainsSubstring("shards without tokens-00000"));
}

TEST_CASE("text that cannot be used ends the call, and shards before it stay", "[data][prepare]") {
  text_folder const text;
  test::temporary_folder const out;
  auto const words = bytes();
  test::write_file(text / "d.txt", "caf\xE9");
  for (int const threads : {1, 4}) {
    auto const folder = made(out / std::to_string(threads));
    REQUIRE_THROWS_WITH(ac::data::prepare(text.paths(), words, folder, small(threads)),
                        ContainsSubstring("d.txt': got invalid UTF-8 at byte 3"));
    REQUIRE(ac::data::shards_in(folder).size() == ac::data::shards_in(out / "1").size());
    REQUIRE(ac::data::shards_in(folder).size() > 3);
    REQUIRE(contents(folder) == contents(out / "1"));
  }
  auto const empty = test::write_file(text / "c.txt", "");
  REQUIRE_THROWS_WITH(ac::data::prepare(std::span(&empty, 1), words, made(out / "none"), small()),
                      ContainsSubstring("0 documents (1 empty"));
  auto options = small();
  options.cut.max_length = 1;
  REQUIRE_THROWS_AS(ac::data::prepare(text.paths(), words, made(out / "none"), options), ac::config_error);
}

TEST_CASE("a full disk ends the call, and it goes on when there is room", "[data][prepare]") {
  text_folder const text;
  test::temporary_folder const out;
  auto const whole = made(out / "whole"), folder = made(out / "full");
  ac::data::prepare(text.paths(), bytes(), whole, small());
  {
    test::file_size_limit const limit(1000);
    REQUIRE_THROWS_AS(ac::data::prepare(text.paths(), bytes(), folder, small()), ac::io_error);
  }
  REQUIRE(ac::data::prepare(text.paths(), bytes(), folder, small()).finished);
  REQUIRE(contents(folder) == contents(whole));
}

TEST_CASE("ids past sixteen bits survive a shard", "[data][token_shard][U54]") {
  test::temporary_folder const folder;
  for (index_t const vocabulary : {65536, 65537, 151936}) {
    bool const narrow = vocabulary == 65536;
    ids const tokens = narrow ? ids{0, 65535, 32768, 7} : ids{0, 65535, 65536, std::int32_t(vocabulary) - 1};
    auto const path = folder / "tokens-00000.safetensors";
    ac::data::write_token_shard(path, {.tokenizer = "x", .vocabulary = vocabulary, .max_length = 4}, tokens,
                                sizes{0, 4}, sizes{0, 1});
    auto const shard = std::make_shared<ac::data::token_shard const>(path);
    REQUIRE(ac::io::safetensors_file(path).tensor("tokens").dtype ==
            (narrow ? ac::io::safetensors_dtype::u16 : ac::io::safetensors_dtype::i32));
    REQUIRE(shard->document(0).to_vector() == tokens);
    ac::data::ragged_batch batch;
    batch.append(shard->document(0));
    REQUIRE(batch.tokens == tokens);
    REQUIRE(batch.targets == ids{tokens[1], tokens[2], tokens[3], ac::ignore_target});
  }
}

TEST_CASE("what a shard says and does not hold is refused when it is read", "[data][token_shard][U63]") {
  test::temporary_folder const folder;
  auto const path = folder / "tokens-00000.safetensors";
  struct fault {
    ids tokens;
    sizes offsets, texts;
    char const* words;
  };
  index_t const huge = std::numeric_limits<index_t>::max();
  for (auto const& [tokens, offsets, texts, words] :
       {fault{{1, 2, 3}, {0, 2}, {0, 1}, "offsets from 0 to 2"},
        {{1, 2, 3}, {1, 3}, {0, 1}, "offsets from 1 to 3"},
        {{1, 2, 3}, {0, huge, 3}, {0, 2}, "offset 1 at 9223372036854775807"},
        {{1, 2, 3}, {0, -5, 3}, {0, 2}, "offset 1 at -5"},
        {{1, 2, 3, 4}, {0, 3, 2, 4}, {0, 3}, "of -1 tokens"},
        {{1, 2, 3}, {0, 1, 3}, {0, 2}, "of 1 tokens"},
        {{1, 2, 3, 4, 5, 6}, {0, 6}, {0, 1}, "of 6 tokens"},
        {{1, 2, 300}, {0, 3}, {0, 1}, "token id 300 in document 0"},
        {{1, 2, 3}, {0, 3}, {0, 2}, "text 1 at 2"}}) {
    ac::data::write_token_shard(path, {.tokenizer = "x", .vocabulary = 256, .max_length = 5}, tokens, offsets,
                                texts);
    auto const said = test::error_of([&] {
      ac::data::token_shard const shard(path);
      for (index_t d = 0; d < shard.num_documents(); ++d) (void)shard.document(d);
    });
    REQUIRE_THAT(said, ContainsSubstring(words) && ContainsSubstring(path.string()));
    REQUIRE(test::one_line(said));
  }
}

TEST_CASE("a damaged shard is refused or read within its bounds", "[data][token_shard][U63]") {
  text_folder const text;
  test::temporary_folder const out;
  auto const words = bytes();
  ac::data::prepare(text.paths(), words, out.path(), small());
  auto const path = out / "tokens-00001.safetensors";
  test::damaged_file file(path, test::read_file(path));
  auto const look = [&] {
    auto const said = test::error_of([&] {
      auto const all = ac::data::open(out.path(), words, {small().cut});
      for (index_t d = 0; d < all.num_documents(); ++d)
        if (all.document(d).find_outside(256) < all.length(d)) throw std::logic_error("an id outside");
      (void)split_validation(all, 20, ac::seed{1});
    });
    REQUIRE((said.empty() || test::one_line(said)));
  };
  for (std::size_t bit = 0; bit < 8 * file.good().size(); bit += 131) file.with_bit_flipped(bit, look);
  file.cut(
      [](std::size_t) { return 97; },
      [&](std::size_t) {
        REQUIRE_FALSE(test::error_of([&] { (void)ac::data::open(out.path(), words, {small().cut}); }).empty());
      });
}

TEST_CASE("shards of another tokenizer, cut or command are refused when they are opened",
          "[data][open_shards]") {
  text_folder const text;
  test::temporary_folder const out;
  auto const words = bytes();
  ac::data::prepare(text.paths(), words, out.path(), small());
  auto const said = [&](ac::data::tokenizer const& t, cutting const& cut, std::vector<fs::path> const& paths) {
    auto const message = test::error_of([&] { (void)ac::data::open(paths, t, {cut}); });
    REQUIRE((message.empty() || test::one_line(message)));
    return message;
  };
  auto const cut = small().cut;
  REQUIRE(said(words, cut, {out.path()}).empty());
  REQUIRE(said(words, cut, {out / "tokens-00002.safetensors"}).empty());
  REQUIRE_THAT(said(bytes(300), cut, {out.path()}),
               ContainsSubstring("another tokenizer (256 tokens") && ContainsSubstring("300"));
  REQUIRE_THAT(said(words, {cutting::windows, 32}, {out.path()}),
               ContainsSubstring("cut as 'windows' at 16") && ContainsSubstring("at 32"));
  REQUIRE_THAT(said(words, {cutting::first, 16}, {out.path()}), ContainsSubstring("'first' at 16"));
  REQUIRE_THAT(said(words, cut, {out.path(), text.path()}), ContainsSubstring("one of the two"));
  REQUIRE_THAT(said(words, cut, {test::write_file(out / "other.safetensors", "x")}),
               ContainsSubstring("at least 8"));
  fs::remove(out / ac::data::shard_name(index_t(ac::data::shards_in(out.path()).size()) - 1));
  REQUIRE_THAT(said(words, cut, {out.path()}), ContainsSubstring("no last one"));
}

TEST_CASE("a validation set out of shards never shares a text with the training set", "[data][open_shards]") {
  text_folder const text;
  test::temporary_folder const out;
  auto const words = bytes();
  ac::data::prepare(text.paths(), words, out.path(), small());
  auto const all = ac::data::open(out.path(), words, {small().cut});
  // What a document is, by text and place: the text of each document, from the shards themselves.
  std::vector<index_t> text_of;
  index_t num_texts = 0;
  for (auto const& m : all.mapped)
    for (index_t t = 0; t < m.shard->num_texts(); ++t, ++num_texts)
      text_of.insert(text_of.end(), std::size_t(m.shard->text_start(t + 1) - m.shard->text_start(t)),
                     num_texts);
  REQUIRE(index_t(text_of.size()) == all.num_documents());
  auto const numbers = [&](ac::data::corpus const& part) {
    std::vector<index_t> found;
    for (auto const& m : part.mapped)
      for (auto const& whole : all.mapped)
        if (whole.shard == m.shard)
          for (index_t i = 0; i < m.count; ++i) found.push_back(whole.first + m.first_in_shard + i);
    REQUIRE(index_t(found.size()) == part.num_documents());
    for (index_t d = 0; d < part.num_documents(); ++d)
      REQUIRE(std::ranges::equal(part.document(d), all.document(found[std::size_t(d)])));
    return found;
  };
  std::uint64_t before = 0;
  for (index_t const count : {index_t(0), index_t(1), index_t(7), index_t(100), all.num_documents() / 2}) {
    auto const parts = split_validation(all, count, ac::seed{7});
    REQUIRE(parts.validation.num_documents() == count);
    auto const held = numbers(parts.validation), kept = numbers(parts.training);
    std::set<index_t> held_texts, kept_texts;
    for (auto const d : held) held_texts.insert(text_of[std::size_t(d)]);
    for (auto const d : kept) kept_texts.insert(text_of[std::size_t(d)]);
    for (auto const t : held_texts) REQUIRE(kept_texts.count(t) == 0);
    REQUIRE(index_t(held_texts.size() + kept_texts.size()) == num_texts);  // all but windows of the last one
    REQUIRE(std::ranges::is_sorted(held));
    REQUIRE(std::set<index_t>(kept.begin(), kept.end()).size() == kept.size());
    auto const again = split_validation(all, count, ac::seed{7});
    REQUIRE(again.training.identity() == parts.training.identity());
    REQUIRE(parts.training.identity() != before);
    before = parts.training.identity();
  }
  REQUIRE(split_validation(all, 7, ac::seed{8}).validation.identity() !=
          split_validation(all, 7, ac::seed{7}).validation.identity());
  REQUIRE_THROWS_AS(split_validation(all, all.num_documents(), ac::seed{1}), ac::config_error);
  REQUIRE_THROWS_AS(split_validation(all, -1, ac::seed{1}), ac::config_error);
}

TEST_CASE("opening shards reads their headers and not their tokens", "[data][open_shards]") {
  // Four GiB of nothing: a file with a hole, which takes neither disk nor time as long as nobody reads it.
  test::temporary_folder const folder;
  auto const path = folder / "tokens-00000.safetensors";
  index_t const documents = 1 << 20, length = 2048;
  auto const words = bytes();
  std::string header =
      "{\"__metadata__\":{\"format\":\"accrete tokens 1\",\"tokenizer\":\"" + words.identity_text() +
      "\",\"vocabulary\":\"256\",\"cut\":\"windows\",\"length\":\"2048\",\"content\":\"0\"},\"offsets\":{"
      "\"dtype\":\"I64\",\"shape\":[" +
      std::to_string(documents + 1) + "],\"data_offsets\":[0," + std::to_string(8 * (documents + 1)) +
      "]},\"texts\":{\"dtype\":\"I64\",\"shape\":[2],\"data_offsets\":[" + std::to_string(8 * (documents + 1)) +
      "," + std::to_string(8 * (documents + 3)) + "]},\"tokens\":{\"dtype\":\"U16\",\"shape\":[" +
      std::to_string(documents * length) + "],\"data_offsets\":[" + std::to_string(8 * (documents + 3)) + "," +
      std::to_string(8 * (documents + 3) + 2 * documents * length) + "]}}";
  header.append((8 - header.size() % 8) % 8, ' ');
  std::uint64_t const header_size = header.size();
  {
    std::ofstream out(path, std::ios::binary);
    out.write(reinterpret_cast<char const*>(&header_size), 8);
    out << header;
    for (index_t d = 0; d <= documents; ++d) {
      std::int64_t const at = d * length;
      out.write(reinterpret_cast<char const*>(&at), 8);
    }
    std::int64_t const texts[] = {0, documents};
    out.write(reinterpret_cast<char const*>(texts), 16);
  }
  fs::resize_file(path, 8 + header.size() + std::size_t(8 * (documents + 3) + 2 * documents * length));
  auto const all = ac::data::open(path, words, {{cutting::windows, length}});
  REQUIRE(all.num_tokens() == documents * length);
  REQUIRE(all.document(documents - 1).size() == length);
}
