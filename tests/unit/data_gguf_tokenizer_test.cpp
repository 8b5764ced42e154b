#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "accrete/data/gguf_tokenizer.hpp"
#include "accrete/data/tokenizer.hpp"
#include "reference/tokenizer_ids.hpp"
#include "support/catch.hpp"
#include "support/random_text.hpp"
#include "support/teacher.hpp"

namespace ac = accrete;
using ac::data::special;
using ac::data::tokenizer;
using ids = std::vector<std::int32_t>;

namespace {
ac::data::tokenizer_spec const& teacher_spec() {
  static ac::data::tokenizer_spec const spec =
      ac::data::tokenizer_spec_from_gguf(ac::io::gguf_file(test::teacher_file()));
  return spec;
}
}  // namespace

TEST_CASE("the teacher's tokenizer gives the known tokens", "[data][gguf_tokenizer]") {
  tokenizer const t(teacher_spec());
  REQUIRE(t.vocab_size() == 49152);
  REQUIRE(t.bos() == 1);
  REQUIRE(t.eos() == 2);
  REQUIRE_FALSE(t.add_bos());
  REQUIRE(t.find("<|im_start|>") == 1);
  REQUIRE(t.is_control(0));
  auto const found = t.encode(
      "The history of the steam engine begins in the seventeenth century, when Thomas Savery patented a pump "
      "for "
      "draining mines. Thomas Newcomen improved the design in 1712, and James Watt added a separate condenser "
      "in "
      "1765.");
  REQUIRE(found.size() == 51);
  REQUIRE(ids(found.begin(), found.begin() + 12) ==
          ids{504, 1463, 282, 260, 9403, 2327, 5634, 281, 260, 26161, 2070, 28});
}

TEST_CASE("the teacher's tokenizer agrees with another implementation under every split",
          "[data][gguf_tokenizer][U59][U61]") {
  for (auto const& one : test::tokenizer_cases) {
    CAPTURE(one.split, one.parse, one.text);
    auto spec = teacher_spec();
    spec.split = one.split;
    static std::vector<tokenizer> made;  // a tokenizer takes a while to build: the cases come split by split
    static std::string last;
    if (last != one.split) {
      made.assign(1, tokenizer(spec));
      last = one.split;
    }
    auto const found = made[0].encode(one.text, one.parse ? special::parse : special::as_text);
    REQUIRE(found == one.ids);
  }
}

TEST_CASE("the teacher's tokenizer gives back every text of bytes it knows", "[data][gguf_tokenizer][U61]") {
  tokenizer const t(teacher_spec());
  std::string lacking;  // 21 bytes have no token, six of them characters by themselves
  for (unsigned b = 0; b < 256; ++b) {
    char const byte = char(b);
    if (t.find({&byte, 1}) < 0) lacking += byte;
  }
  REQUIRE(lacking == "\x04\x06\x13\x14\x16\x1D\xC0\xC1\xF1\xF2\xF5\xF6\xF7\xF8\xF9\xFA\xFB\xFC\xFD\xFE\xFF");
  for (std::uint64_t number = 0; number < 5000; ++number) {
    auto text = test::random_text(number, 0x3FFFF);
    text.erase(
        std::remove_if(text.begin(), text.end(), [&](char c) { return lacking.find(c) != std::string::npos; }),
        text.end());
    auto const how = number % 2 == 0 ? special::as_text : special::parse;
    auto const back = t.decode(t.encode(text, how));
    REQUIRE(back == text);
  }
  REQUIRE(t.encode("a\x04 b") == ids{t.find("a"), 0, t.find(" b")});
}

TEST_CASE("the teacher's control tokens are text unless asked for", "[data][gguf_tokenizer]") {
  tokenizer const t(teacher_spec());
  REQUIRE(t.encode("<|im_start|>", special::parse) == ids{1});
  auto const as_text = t.encode("<|im_start|>");
  REQUIRE(as_text.size() > 1);
  REQUIRE(t.decode(as_text) == "<|im_start|>");
  REQUIRE(t.decode(ids{1, 504}) == "<|im_start|>The");
}
