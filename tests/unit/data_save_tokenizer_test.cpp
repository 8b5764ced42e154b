#include "accrete/data/save_tokenizer.hpp"

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/random_text.hpp"
#include "support/teacher.hpp"

using namespace accrete;
using Catch::Matchers::ContainsSubstring;

namespace {
data::tokenizer from_gguf() {
  return data::tokenizer(data::tokenizer_spec_from_gguf(io::gguf_file(test::teacher_file())));
}
data::tokenizer from_folder(std::filesystem::path const& f) {
  return data::tokenizer(data::tokenizer_spec_from_hf(f));
}
std::vector<std::string> const texts{
    "The steam engine, 1765: it's  12 345 times\n\n\t better.", "<|im_start|>user\nHi<|im_end|>",
    "  \r\n x\u00a0y ",
    "\u6c34\u306e\u4e2d \u0939\u093f\u0928\u094d\u0926\u0940 \U0001F468\u200d\U0001F469\u200d\U0001F467", ""};
}  // namespace

TEST_CASE("a tokenizer out of a GGUF leaves as files that give the same tokens", "[data][tokenizer]") {
  test::temporary_folder const folder;
  auto const words = from_gguf();
  if (char const* const kept = std::getenv("ACCRETE_EXPORT_FOLDER")) {  // for a look at it with other programs
    auto const here = std::filesystem::path(kept) / "tokenizer";
    data::save_tokenizer(words, here);
    auto expected = nlohmann::ordered_json::array();
    for (auto const& text : texts)
      expected.push_back({{"text", text}, {"ids", words.encode(text, data::special::parse)}});
    for (std::uint64_t i = 0; i < 300; ++i)
      expected.push_back({{"text", test::random_text(i)}, {"ids", words.encode(test::random_text(i))}});
    test::write_file(here / "expected_ids.json", expected.dump());
  }
  data::save_tokenizer(words, folder.path());
  CHECK(folder.entries() == 2);
  auto const again = from_folder(folder.path());
  CHECK(again.vocab_size() == words.vocab_size());
  CHECK(again.bos() == words.bos());
  CHECK(again.eos() == words.eos());
  CHECK(again.add_bos() == words.add_bos());
  for (auto const how : {data::special::as_text, data::special::parse})
    for (auto const& text : texts) CHECK(again.encode(text, how) == words.encode(text, how));
  for (std::uint64_t i = 0; i < 300; ++i) {
    auto const text = test::random_text(i);
    REQUIRE(again.encode(text) == words.encode(text));
  }

  // And from there on as they are, an empty file among them.
  test::write_file(folder / "chat_template.jinja", "");
  data::save_tokenizer(again, folder / "copy");
  CHECK(test::read_file(folder / "copy" / "chat_template.jinja").empty());
  CHECK(test::read_file(folder / "copy" / "tokenizer.json") == test::read_file(folder / "tokenizer.json"));
  CHECK(from_folder(folder / "copy").identity() == again.identity());
}

TEST_CASE("a tokenizer whose file became another one is not saved", "[data][tokenizer]") {
  test::temporary_folder const folder;
  data::save_tokenizer(from_gguf(), folder / "a");
  auto const words = from_folder(folder / "a");
  auto text = test::read_file(folder / "a" / "tokenizer.json");
  text.replace(text.find("\"normalizer\":null"), 17, "\"normalizer\":{\"type\":\"NFC\"}");
  test::write_file(folder / "a" / "tokenizer.json", text);
  CHECK_THROWS_WITH(data::save_tokenizer(words, folder / "b"),
                    ContainsSubstring("the file was replaced meanwhile"));
  CHECK_FALSE(std::filesystem::exists(folder / "b" / "tokenizer.json"));
  data::tokenizer_spec by_hand;
  by_hand.tokens = {"a"};
  CHECK_THROWS_WITH(data::save_tokenizer(data::tokenizer(by_hand), folder / "c"),
                    ContainsSubstring("made by hand"));
}
