#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "accrete/io/safetensors.hpp"
#include "accrete/io/safetensors_writer.hpp"
#include "support/catch.hpp"
#include "support/counted_new.hpp"
#include "support/files.hpp"

using namespace accrete::io;
using test::error_of;
using test::one_line;

namespace {

std::string with_length(std::uint64_t length, std::string_view rest) {
  std::string out(8, '\0');
  std::memcpy(out.data(), &length, 8);
  return out + std::string(rest);
}
std::string file_of(std::string_view header, std::size_t data) {
  return with_length(header.size(), header) + std::string(data, '\1');
}

// What Python's `safetensors` 0.8 writes for one, b, empty, ids, a, u.
std::string official() {
  std::string_view const header =
      R"({"__metadata__":{"format":"pt"},"one":{"dtype":"F64","shape":[],"data_offsets":[0,8]},)"
      R"("b":{"dtype":"F32","shape":[2,3],"data_offsets":[8,32]},"empty":{"dtype":"F32","shape":[0,4],"data_offsets":[32,32]},)"
      R"("ids":{"dtype":"I32","shape":[2],"data_offsets":[32,40]},"a":{"dtype":"F16","shape":[3],"data_offsets":[40,46]},)"
      R"("u":{"dtype":"U8","shape":[3],"data_offsets":[46,49]}}       )";
  std::string_view const data(
      "\x00\x00\x00\x00\x00\x00\x04\x40\x00\x00\x80\x3f\x00\x00\x20\xc0\x00\x00\x40\x40\x00\x00\x80\x40\x00\x00"
      "\xa0\x40"
      "\x00\x00\xc8\x40\x00\x00\x01\x00\xff\xff\xff\xff\x00\x3c\x00\x40\x00\xc2\x07\x08\x09",
      49);
  return with_length(376, std::string(header) + std::string(data));
}

template <class T>
T value(safetensors_tensor const& t, std::size_t i) {
  T out;
  std::memcpy(&out, t.bytes.data() + i * sizeof(T), sizeof(T));
  return out;
}

}  // namespace

TEST_CASE("safetensors_file reads what the official library writes", "[io][safetensors]") {
  test::temporary_folder folder;
  safetensors_file const file(test::write_file(folder / "x.safetensors", official()));
  REQUIRE(file.tensors().size() == 6);
  CHECK(file.metadata().at("format") == "pt");
  CHECK(value<double>(file.tensor("one"), 0) == 2.5);
  CHECK(file.tensor("one").shape.empty());
  CHECK(file.tensor("b").shape == std::vector<accrete::index_t>{2, 3});
  CHECK(value<float>(file.tensor("b"), 1) == -2.5f);
  CHECK(value<float>(file.tensor("b"), 5) == 6.25f);
  CHECK(value<std::int32_t>(file.tensor("ids"), 0) == 65536);
  CHECK(file.tensor("a").dtype == safetensors_dtype::f16);
  CHECK(file.tensor("empty").bytes.empty());
  CHECK(value<std::uint8_t>(file.tensor("u"), 2) == 9);
  CHECK(file.find_tensor("c") == nullptr);
  CHECK_THAT(error_of([&] { (void)file.tensor("c"); }), Catch::ContainsSubstring("no tensor 'c'"));
}

// U62, U63 and the format's own list of what a reader must reject.
TEST_CASE("safetensors_file refuses every kind of wrong header in one line", "[io][safetensors]") {
  test::temporary_folder folder;
  auto const path = folder / "x.safetensors";
  auto const refusal = [&](std::string const& bytes) {
    test::write_file(path, bytes);
    return error_of([&] { safetensors_file file(path); });
  };
  struct wrong {
    std::string header;
    std::size_t data;
    char const* says;
  };
  auto const a = [](std::string const& inside) { return "{\"a\":{" + inside + "}}"; };
  for (
      wrong const& w : std::vector<wrong>{
          {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
           12, "hole nor overlap"},
          {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[12,20]}})",
           20, "hole nor overlap"},
          {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
           8, "hole nor overlap"},
          {a(R"("dtype":"F32","shape":[2],"data_offsets":[4,12])"), 12, "hole nor overlap"},
          {a(R"("dtype":"F32","shape":[2],"data_offsets":[0,8])"), 9, "got 9 bytes after the header"},
          {a(R"("dtype":"F32","shape":[2],"data_offsets":[0,8])"), 7, "cut short"},
          {a(R"("dtype":"F32","shape":[2],"data_offsets":[8,0])"), 8, "data_offsets"},
          {a(R"("dtype":"F32","shape":[1],"data_offsets":[-1,3])"), 8, "data_offsets"},
          {a(R"("dtype":"F32","shape":[2],"data_offsets":[8])"), 8, "data_offsets"},
          {a(R"("dtype":"F32","shape":[2],"data_offsets":[0,4,8])"), 8, "data_offsets"},
          {a(R"("dtype":"F32","shape":[2],"data_offsets":[0.0,8])"), 8, "data_offsets"},
          {a(R"("dtype":"F32","shape":[2],"data_offsets":[0,18446744073709551624])"), 8, "data_offsets"},
          {a(R"("dtype":"F32","shape":[1000,1000],"data_offsets":[0,4])"), 4, "4000000 for F32[1000, 1000]"},
          {a(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0])"), 0, "2^63"},
          {a(R"("dtype":"U8","shape":[2305843009213693952,8],"data_offsets":[0,0])"), 0, "2^63"},
          {a(R"("dtype":"F32","shape":[-2],"data_offsets":[0,8])"), 8, "shape"},
          {a(R"("dtype":"F32","shape":2,"data_offsets":[0,8])"), 8, "shape"},
          {a(R"("dtype":"F33","shape":[2],"data_offsets":[0,8])"), 8, "'F33'"},
          {a(R"("dtype":32,"shape":[2],"data_offsets":[0,8])"), 8, "dtype"},
          {a(R"("dtype":"F4","shape":[3],"data_offsets":[0,2])"), 2, "whole bytes"},
          {a(R"("shape":[2],"data_offsets":[0,8])"), 8, "no dtype"},
          {a(R"("dtype":"F32","data_offsets":[0,8])"), 8, "no shape"},
          {a(R"("dtype":"F32","shape":[2])"), 8, "no data_offsets"},
          {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
           8, "key 'a' twice"},
          {R"({"__metadata__":{"n":1}})", 0, "__metadata__"},
          {R"({"__metadata__":[]})", 0, "__metadata__"},
          {R"({"a":1})", 0, "tensor 'a'"},
          {"[]", 0, "an object as header"},
          {"{} {}", 0, "JSON"},
          {"{\"\xFF\":1}", 0, "UTF-8"},
          {"", 0, "JSON"}}) {
    INFO(w.header);
    auto const text = refusal(file_of(w.header, w.data));
    CHECK(one_line(text));
    CHECK_THAT(text, Catch::ContainsSubstring(path.string()) && Catch::ContainsSubstring(w.says));
  }
  for (std::uint64_t length : {std::uint64_t(0), std::uint64_t(1) << 63, ~std::uint64_t(0), std::uint64_t(3),
                               std::uint64_t(100'000'001)}) {
    INFO(length);
    CHECK(one_line(refusal(with_length(length, "{}"))));
  }
  CHECK(one_line(refusal("{}")));
  CHECK(one_line(refusal("")));
}

TEST_CASE("safetensors_file accepts what is legal though odd", "[io][safetensors]") {
  test::temporary_folder folder;
  for (
      auto const& [header, data] : std::vector<std::pair<std::string, std::size_t>>{
          {R"({"b":{"dtype":"F32","shape":[2],"data_offsets":[1,9]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
           9},
          {R"({"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}})", 0},
          {R"({"a":{"dtype":"F32","shape":[0,1000000],"data_offsets":[0,0]}})", 0},
          {R"({"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}})", 4},
          {R"({"a":{"dtype":"F4","shape":[4],"data_offsets":[0,2]}})", 2},
          {"{}", 0},
          {" \n{} ", 0}}) {
    INFO(header);
    auto const path = test::write_file(folder / "x", file_of(header, data));
    CHECK(error_of([&] { safetensors_file file(path); }).empty());
  }
}

TEST_CASE("safetensors_file survives every cut and every flipped bit of the header", "[io][safetensors]") {
  test::temporary_folder folder;
  auto const path = folder / "x";
  test::damaged_file file(path, official());
  auto const open = [&] {
    std::size_t const before = test::bytes_requested;
    auto const text = error_of([&] { safetensors_file f(path); });
    REQUIRE(test::bytes_requested - before < 200 * file.good().size());
    return text;
  };
  int loaded = 0;
  for (std::size_t bit = 0; bit < 384 * 8; ++bit)
    file.with_bit_flipped(bit, [&] {
      auto const text = open();
      if (text.empty())
        ++loaded;
      else
        REQUIRE(one_line(text));
    });
  CHECK(loaded < 384 * 2);  // letters of names, and dtypes of equal width
  CHECK(open().empty());
  file.cut([](std::size_t) { return 1; }, [&](std::size_t) { REQUIRE(one_line(open())); });
}

TEST_CASE("safetensors_writer writes what the reader reads back", "[io][safetensors]") {
  test::temporary_folder folder;
  auto const path = folder / "x.safetensors";
  std::vector<float> const w{1, 2, 3, 4, 5, 6};
  std::vector<std::int32_t> const ids{0, 65536, 151935};
  {
    safetensors_writer out(path);
    out.metadata("of", "a \"test\"\n");
    out.declare("none", safetensors_dtype::f32, {0});
    out.declare("layer.w", safetensors_dtype::f32, {2, 3});
    out.declare("ids", safetensors_dtype::i32, {3});
    out.declare("also none", safetensors_dtype::f32, {0, 5});
    auto const bytes = std::as_bytes(std::span(w));
    out.append("layer.w", bytes.first(5)).append("layer.w", bytes.subspan(5));
    out.append("ids", std::as_bytes(std::span(ids)));
    CHECK_FALSE(std::filesystem::exists(path));
    out.commit();
  }
  CHECK(folder.entries() == 1);
  safetensors_file const file(path);
  CHECK(file.tensors().size() == 4);
  CHECK(file.metadata().at("of") == "a \"test\"\n");
  CHECK(value<float>(file.tensor("layer.w"), 5) == 6.0f);
  CHECK(value<std::int32_t>(file.tensor("ids"), 2) == 151935);
  std::uint64_t length = 0;
  std::memcpy(&length, test::read_file(path).data(), 8);
  CHECK(length % 8 == 0);
  { safetensors_writer(folder / "empty").commit(); }
  CHECK(safetensors_file(folder / "empty").tensors().empty());
}

TEST_CASE("safetensors_writer refuses bytes in the wrong place and leaves nothing", "[io][safetensors]") {
  test::temporary_folder folder;
  std::vector<float> const four{1, 2, 3, 4};
  auto const bytes = std::as_bytes(std::span(four));
  auto const attempt = [&](auto&& steps) {
    return error_of([&] {
      safetensors_writer out(folder / "x");
      out.declare("a", safetensors_dtype::f32, {2}).declare("b", safetensors_dtype::f32, {2});
      steps(out);
    });
  };
  CHECK_THAT(attempt([&](auto& o) { o.append("b", bytes.first(8)); }), Catch::ContainsSubstring("for 'b'"));
  CHECK_THAT(attempt([&](auto& o) { o.append("a", bytes.first(12)); }), Catch::ContainsSubstring("at most 8"));
  CHECK_THAT(attempt([&](auto& o) { o.append("a", bytes.first(8)).commit(); }),
             Catch::ContainsSubstring("'b' with 8 bytes missing"));
  CHECK_THAT(attempt([&](auto& o) {
               o.append("a", bytes.first(8)).append("b", bytes.first(8)).append("b", bytes.first(1));
             }),
             Catch::ContainsSubstring("no more"));
  CHECK(one_line(attempt([&](auto& o) { o.declare("a", safetensors_dtype::u8, {1}); })));
  CHECK(one_line(attempt([&](auto& o) { o.declare("c", safetensors_dtype::u8, {-1}); })));
  CHECK(one_line(attempt([&](auto& o) { o.declare("__metadata__", safetensors_dtype::u8, {1}); })));
  CHECK(one_line(
      attempt([&](auto& o) { o.append("a", bytes.first(4)).declare("c", safetensors_dtype::u8, {1}); })));
  CHECK(one_line(
      attempt([&](auto& o) { o.declare("\xFF", safetensors_dtype::u8, {1}).append("a", bytes.first(4)); })));
  {
    std::string const long_one(2000, 'x');
    test::file_size_limit limit(1000);
    CHECK(one_line(error_of([&] {
      safetensors_writer out(folder / "x");
      out.declare("a", safetensors_dtype::u8, {2000});
      out.append("a", std::as_bytes(std::span(long_one))).commit();
    })));
  }
  CHECK(folder.entries() == 0);
}
