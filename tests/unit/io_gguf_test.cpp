#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "accrete/io/gguf.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/gguf_builder.hpp"

using accrete::io::ggml_type;
using accrete::io::gguf_file;
using test::error_of;
using test::gguf_builder;
using test::one_line;

namespace {

gguf_builder small() {
  gguf_builder b;
  b.string("general.name", "small").u32("n", 7).f32("eps", 0.5f);
  b.entry("flag", 7, gguf_builder::raw(std::uint8_t(1)));
  b.entry("minus", 5, gguf_builder::raw(std::int32_t(-3)));
  b.entry("large", 10, gguf_builder::raw(std::uint64_t(1) << 40));
  b.entry("wide", 12, gguf_builder::raw(0.1));
  b.array("words", 8, 2, gguf_builder::text("a b") + gguf_builder::text(""));
  b.array("ids", 5, 3, test::bytes_of(std::vector<std::int32_t>{1, -2, 3}));
  b.array("none", 8, 0, "");
  b.tensor("w", 0, {3, 2}, test::bytes_of(std::vector<float>{1, 2, 3, 4, 5, 6}));
  b.tensor("v", 0, {4}, test::bytes_of(std::vector<float>{7, 8, 9, 10}));
  return b;
}

class scratch {
 public:
  gguf_file open(std::string const& bytes) {
    test::write_file(path(), bytes);
    return gguf_file(path());
  }
  std::string refusal(std::string const& bytes) {
    return error_of([&] { (void)open(bytes); });
  }
  [[nodiscard]] std::filesystem::path path() const { return folder_ / "x.gguf"; }

 private:
  test::temporary_folder folder_;
};

void put(std::string& bytes, std::size_t at, std::string const& value) {
  bytes.replace(at, value.size(), value);
}

}  // namespace

TEST_CASE("gguf_file gives metadata as typed values", "[io][gguf]") {
  scratch s;
  auto const file = s.open(small().build());
  CHECK(file.get<std::string_view>("general.name") == "small");
  CHECK(file.get<std::uint64_t>("n") == 7);
  CHECK(file.get<std::int8_t>("n") == 7);
  CHECK(file.get<std::int64_t>("minus") == -3);
  CHECK(file.get<std::uint64_t>("large") == 1099511627776);
  CHECK(file.get<double>("eps") == 0.5);
  CHECK(file.get<double>("wide") == 0.1);
  CHECK(file.get<bool>("flag"));
  CHECK(file.get<std::vector<std::string_view>>("words") == std::vector<std::string_view>{"a b", ""});
  CHECK(file.get<std::vector<int>>("ids") == std::vector<int>{1, -2, 3});
  CHECK(file.get<std::vector<std::string_view>>("none").empty());
  CHECK(file.get<std::uint32_t>("not there", 9) == 9);
  CHECK(file.get<std::uint32_t>("n", 9) == 7);
  CHECK(file.has("n"));
  CHECK_FALSE(file.has("N"));
}

TEST_CASE("gguf_file names key, kind and range when a value is not what is asked for", "[io][gguf]") {
  scratch s;
  auto const file = s.open(small().entry("two", 7, gguf_builder::raw(std::uint8_t(2))).build());
  CHECK_THAT(error_of([&] { (void)file.get<int>("nothing"); }),
             Catch::ContainsSubstring("no key 'nothing'") && Catch::ContainsSubstring(s.path().string()));
  CHECK_THAT(error_of([&] { (void)file.get<int>("eps"); }), Catch::ContainsSubstring("key 'eps': got float32"));
  CHECK_THAT(error_of([&] { (void)file.get<float>("n"); }),
             Catch::ContainsSubstring("got uint32, expected a float"));
  CHECK_THAT(error_of([&] { (void)file.get<std::string_view>("n"); }), Catch::ContainsSubstring("a string"));
  CHECK_THAT(error_of([&] { (void)file.get<bool>("n"); }), Catch::ContainsSubstring("a bool"));
  CHECK_THAT(error_of([&] { (void)file.get<bool>("two"); }), Catch::ContainsSubstring("got 2"));
  CHECK_THAT(error_of([&] { (void)file.get<std::uint32_t>("minus"); }), Catch::ContainsSubstring("got -3"));
  CHECK_THAT(error_of([&] { (void)file.get<std::uint32_t>("large"); }),
             Catch::ContainsSubstring("fits 32 bits"));
  CHECK_THAT(error_of([&] { (void)file.get<std::vector<int>>("n"); }), Catch::ContainsSubstring("an array"));
  CHECK_THAT(error_of([&] { (void)file.get<std::vector<int>>("words"); }),
             Catch::ContainsSubstring("an integer"));
  CHECK_THAT(error_of([&] { (void)file.get<int>("ids"); }), Catch::ContainsSubstring("got array"));
}

TEST_CASE("gguf_file gives tensors with their shape outermost first", "[io][gguf]") {
  scratch s;
  for (std::uint32_t version : {2u, 3u}) {
    auto b = small();
    b.version = version;
    auto const file = s.open(b.build());
    REQUIRE(file.tensors().size() == 2);
    auto const& w = file.tensor("w");
    CHECK(w.shape == std::vector<accrete::index_t>{2, 3});
    CHECK(w.rows() == 2);
    CHECK(w.columns() == 3);
    CHECK(w.type == ggml_type::f32);
    CHECK(accrete::io::load<float>(w.bytes.data() + 12) == 4.0f);
    CHECK(file.tensor("v").rows() == 1);
    CHECK(accrete::io::load<float>(file.tensor("v").bytes.data()) == 7.0f);
    CHECK(file.find_tensor("u") == nullptr);
    CHECK_THAT(error_of([&] { (void)file.tensor("u"); }), Catch::ContainsSubstring("no tensor 'u'"));
  }
}

TEST_CASE("gguf_file honours the alignment the file names", "[io][gguf]") {
  scratch s;
  for (std::uint32_t alignment : {8u, 64u, 4096u}) {
    auto b = small().u32("general.alignment", alignment);
    b.alignment = alignment;
    auto const file = s.open(b.build());
    CHECK(accrete::io::load<float>(file.tensor("v").bytes.data() + 12) == 10.0f);
  }
  for (std::uint32_t alignment : {0u, 24u, 1u << 21}) {
    auto const text = s.refusal(small().u32("general.alignment", alignment).build());
    CHECK(one_line(text));
    CHECK_THAT(text, Catch::ContainsSubstring("general.alignment"));
  }
}

TEST_CASE("gguf_file refuses other files and other versions", "[io][gguf]") {
  scratch s;
  CHECK_THAT(s.refusal("GGU"), Catch::ContainsSubstring("GGUF"));
  CHECK_THAT(s.refusal("PK\3\4 a wheel is a zip"), Catch::ContainsSubstring("does not begin with 'GGUF'"));
  CHECK_THAT(s.refusal(""), Catch::ContainsSubstring("empty"));
  auto b = small();
  for (auto const& [version, says] : std::vector<std::pair<std::uint32_t, char const*>>{
           {1, "version 1"}, {4, "version 4"}, {0x03000000, "big-endian"}}) {
    b.version = version;
    CHECK_THAT(s.refusal(b.build()), Catch::ContainsSubstring(says));
  }
}

TEST_CASE("gguf_file refuses counts, lengths and shapes that the file cannot hold", "[io][gguf]") {
  scratch s;
  constexpr std::uint64_t most = (std::numeric_limits<std::uint64_t>::max)();
  auto const raw = [](auto v) { return gguf_builder::raw(v); };
  auto const check = [&](std::string const& bytes, char const* says) {
    auto const text = s.refusal(bytes);
    CHECK(one_line(text));
    CHECK_THAT(text, Catch::ContainsSubstring(says) && Catch::ContainsSubstring(s.path().string()));
  };
  auto const good = small().build();
  for (std::uint64_t count : {most, most / 24, std::uint64_t(1) << 62, std::uint64_t(1000)}) {
    auto bytes = good;
    put(bytes, 8, raw(count));
    check(bytes, "tensors");
    bytes = good;
    put(bytes, 16, raw(count));
    check(bytes, "keys");
  }
  for (std::uint64_t length : {most, most - 20, std::uint64_t(5000)}) {
    check(small().entry("s", 8, raw(length)).build(), "key 's'");
    check(small().array("s", 8, 1, raw(length)).build(), "key 's'");
    check(small().array("s", 4, length, "").build(), "elements of uint32");
    check(small().array("s", 8, length, "").build(), "elements of string");
    check(small().array("s", 12, length, "").build(), "elements of float64");
  }
  check(small().entry("s", 13, "").build(), "kind 13");
  check(small().entry("s", 0xFFFFFFFFu, "").build(), "a kind from 0 to 12");
  check(small().array("s", 9, 1, raw(std::uint32_t(4)) + raw(std::uint64_t(0))).build(), "an array of array");
  check(small().array("s", 77, 1, "").build(), "an array of kind 77");

  std::string const data(144, '\0');
  check(small().tensor("t", 0, {}, data).build(), "0 dimensions");
  check(small().tensor("t", 0, {1, 1, 1, 1, 1}, data).build(), "5 dimensions");
  check(small().tensor("t", 0, {0}, data).build(), "a dimension of 0");
  check(small().tensor("t", 0, {1u << 31, 1u << 31, 4}, data).build(), "2^63");
  check(small().tensor("t", 0, {std::uint64_t(1) << 62, 4}, data).build(), "2^63");
  check(small().tensor("t", 0, {std::uint64_t(1) << 61, 1}, data).build(), "2^63");
  check(small().tensor("t", 0, {most}, data).build(), "2^63");
  check(small().tensor("t", 0, {100000}, data).build(), "400000 bytes of data");
  check(small().tensor("t", 3, {33}, data).build(), "a multiple of 32");
  check(small().tensor("t", 12, {128}, data).build(), "a multiple of 256");
  check(small().tensor("t", 4, {32}, data).build(), "type 4");
  check(small().tensor("t", 1000, {32}, data).build(), "type 1000");
  CHECK(s.refusal(small().tensor("t", 12, {256}, data).build()).empty());  // a known type that is not decoded
}

TEST_CASE("gguf_file refuses names given twice and bytes shared or outside", "[io][gguf]") {
  scratch s;
  auto const check = [&](std::string const& bytes, char const* says) {
    auto const text = s.refusal(bytes);
    CHECK(one_line(text));
    CHECK_THAT(text, Catch::ContainsSubstring(says));
  };
  auto const good = small().build();
  auto bytes = good;
  auto const eps = bytes.find("eps");
  put(bytes, eps, "ids");
  check(bytes, "key 'ids' twice");
  // a tensor record: length 1, name, rank, dimensions, type, offset
  auto const record = good.find(gguf_builder::text("v") + gguf_builder::raw(std::uint32_t(1)));
  REQUIRE(record != std::string::npos);
  bytes = good;
  bytes[record + 8] = 'w';
  check(bytes, "tensor 'w' twice");
  check(good.substr(0, good.size() - 1), "tensor 'v'");  // the last tensor's last byte
  check(good.substr(0, good.size() - 1), "cut short");
  for (auto const& [offset, says] :
       std::vector<std::pair<std::uint64_t, char const*>>{{0, "bytes shared"},
                                                          {33, "a multiple of the alignment 32"},
                                                          {64, "inside"},
                                                          {~std::uint64_t(31), "inside"}}) {
    bytes = good;
    put(bytes, record + 8 + 1 + 4 + 8 + 4, gguf_builder::raw(offset));
    check(bytes, says);
  }
}

TEST_CASE("gguf_file keeps messages on one line whatever a name holds", "[io][gguf]") {
  scratch s;
  auto const text = s.refusal(small().entry("a\nb\x1b[31m", 99, "").build());
  CHECK(one_line(text));
  CHECK_THAT(text, Catch::ContainsSubstring("'a\\x0ab\\x1b[31m'"));
  CHECK(s.refusal(small().entry(std::string(100000, 'k'), 99, "").build()).size() < 1000);
  // What is no UTF-8 is escaped byte by byte, characters stay.
  using accrete::io::name_text;
  CHECK(name_text("\xC4\xA0who \xE2\x82\xAC\xF0\x9F\x98\x80") == "'\xC4\xA0who \xE2\x82\xAC\xF0\x9F\x98\x80'");
  CHECK(name_text("a\xC4z\x80\xE2\x82\xF8\xC4") == "'a\\xc4z\\x80\\xe2\\x82\\xf8\\xc4'");
  CHECK(name_text(std::string(119, 'a') + "\xC4\xA0") == "'" + std::string(119, 'a') + "\\xc4...'");
  // Surrogates, overlong forms and what lies past Unicode are no characters; the last before each of them is one.
  CHECK(name_text("\xED\xA0\x80") == "'\\xed\\xa0\\x80'");
  CHECK(name_text("\xE0\x9F\xBF\xF0\x8F\xBF\xBF") == "'\\xe0\\x9f\\xbf\\xf0\\x8f\\xbf\\xbf'");
  CHECK(name_text("\xF4\x90\x80\x80") == "'\\xf4\\x90\\x80\\x80'");
  CHECK(name_text("\xED\x9F\xBF\xF4\x8F\xBF\xBF") == "'\xED\x9F\xBF\xF4\x8F\xBF\xBF'");
}
