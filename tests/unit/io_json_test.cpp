#include <string>
#include <string_view>

#include "accrete/io/json.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"

using accrete::io::json;
using test::error_of;

namespace {
json read(std::string_view text) {
  return json::parse(text, "here");
}
std::string refusal(std::string_view text) {
  return error_of([&] { (void)read(text); });
}
}  // namespace

TEST_CASE("json reads every kind of value", "[io][json]") {
  json const v = read(" {\"z\": [1, -2.5e3, true, false, null], \"a\":\"x\", \"o\":{}, \"e\":[] } \n");
  REQUIRE(v.is_object());
  CHECK(v.find("a")->as_string("w") == "x");
  CHECK(v.find("b") == nullptr);
  auto const& list = v.find("z")->items();
  REQUIRE(list.size() == 5);
  CHECK(list[0].as_index("w") == 1);
  CHECK(list[1].as_double("w") == -2500.0);
  CHECK(list[2].as_bool("w"));
  CHECK_FALSE(list[3].as_bool("w"));
  CHECK(list[4].is_null());
  CHECK(v.find("o")->items().empty());
  CHECK(v.find("e")->is_array());
}

TEST_CASE("json keeps sizes exact and takes nothing else for one", "[io][json]") {
  CHECK(read("9007199254740993").as_index("w") == 9007199254740993);
  CHECK(read("9223372036854775807").as_index("w") == 9223372036854775807);
  CHECK(read("0").as_index("w") == 0);
  CHECK(read("18446744073709551615").as_unsigned("w") == 18446744073709551615u);
  CHECK(test::one_line(error_of([] { (void)read("18446744073709551616").as_unsigned("w"); })));
  for (char const* text : {"9223372036854775808", "18446744073709551616", "-1", "-0", "1.0", "1e3", "\"1\"",
                           "true", "null", "[1]"}) {
    INFO(text);
    auto const value = read(text);
    CHECK_THAT(error_of([&] { (void)value.as_index("here: key"); }), Catch::StartsWith("here: key: got "));
  }
  CHECK(test::one_line(error_of([] { (void)read("1e999").as_double("w"); })));
  CHECK(read("1e-6").as_double("w") == 1e-6);
}

TEST_CASE("json decodes escapes and refuses halves of characters", "[io][json]") {
  CHECK(read(R"("\"\\\/\b\f\n\r\t\u0041\u00e9\u20ac\ud83d\ude00")").as_string("w") ==
        "\"\\/\b\f\n\r\tA\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80");
  CHECK(read("\"\xF0\x9F\x98\x80\xC3\xA9\"").as_string("w") == "\xF0\x9F\x98\x80\xC3\xA9");
  for (std::string_view text :
       {R"("\ud83d")", R"("\ud83dx")", R"("\ude00")", R"("\ud83d\u0041")", R"("\u12")", R"("\u-123")",
        R"("\x")", "\"\n\"", "\"abc", "\"\\", "\"\xC3\"", "\"\xC0\x80\"", "\"\xED\xA0\x80\"",
        "\"\xF5\x80\x80\x80\"", "\"\xE0\x80\x80\"", "\"\x80\"", "\"\xF0\x9F\x98\""}) {
    INFO(text);
    CHECK(test::one_line(refusal(text)));
  }
}

TEST_CASE("json refuses what is not JSON, and keys given twice", "[io][json]") {
  for (char const* text : {"",           " ",     "{",       "[",   "[1",  "[1,]", "{\"a\"}", "{\"a\":}",
                           "{\"a\":1,}", "{a:1}", "{'a':1}", "nul", "tru", "01",   "+1",      ".5",
                           "1.",         "1e",    "-",       "--1", "1 2", "{} x", "// c\n1", "\xEF\xBB\xBF{}",
                           "NaN",        "[1}"}) {
    INFO(text);
    CHECK(test::one_line(refusal(text)));
  }
  CHECK_THAT(refusal(R"({"a":1,"b":2,"a":1})"), Catch::ContainsSubstring("key 'a' twice"));
  CHECK_THAT(refusal(R"({"a":1,"\u0061":1})"), Catch::ContainsSubstring("twice"));
  CHECK_THAT(refusal(R"([{"x":{"a":1,"a":2}}])"), Catch::ContainsSubstring("twice"));
}

TEST_CASE("json says where a text stops being JSON, and nothing of what stands there", "[io][json]") {
  CHECK(refusal("{\"a\":") ==
        "here: got unexpected end of input at byte 6 of the JSON, expected '[', '{', or a literal");
  CHECK(refusal("[1}") == "here: got unexpected '}' at byte 3 of the JSON, expected ']'");
  CHECK(refusal("[8.\xFF]") == "here: got invalid number at byte 4 of the JSON, expected digit after '.'");
  auto const text = refusal("\"; expected \xFF\"");
  CHECK(text == "here: got invalid string: ill-formed UTF-8 byte at byte 13 of the JSON, expected JSON");
  CHECK(refusal(std::string(5000, '9') + "e999").size() < 200);
}

TEST_CASE("json refuses deep nesting before the stack ends", "[io][json]") {
  CHECK_THAT(refusal(std::string(1000000, '[')), Catch::ContainsSubstring("64 levels"));
  CHECK(refusal(std::string(64, '[') + std::string(64, ']')).empty());
}

TEST_CASE("json_quote gives back what parse reads", "[io][json]") {
  std::string const text = std::string("a\"b\\c\n\t\x01") + '\0' + "\xC3\xA9";
  CHECK(read(accrete::io::json_quote(text)).as_string("w") == text);
  CHECK(error_of([] { (void)accrete::io::json_quote("a\xFF", "there"); }).starts_with("there: got "));
}
