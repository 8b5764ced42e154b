#include <string>
#include <utility>

#include "accrete/model/load_teacher.hpp"
#include "accrete/reference/backend.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/model_files.hpp"

namespace ac = accrete;
using Catch::Matchers::ContainsSubstring;
using backend = ac::reference::backend<double>;

namespace {
/// A tokenizer.json of single letters from 'a' on and one special token.
std::string letters(int count) {
  std::string vocab;
  for (int i = 0; i < count; ++i)
    vocab += (i == 0 ? "\"" : ",\"") + std::string(1, char('a' + i)) + "\":" + std::to_string(i);
  return R"({"model":{"type":"BPE","vocab":{)" + vocab +
         R"(},"merges":[]},"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},"added_tokens":[{"id":)" +
         std::to_string(count) + R"(,"content":"<|end|>","special":true,"normalized":false}]})";
}
}  // namespace

TEST_CASE("a directory brings its tokenizer along", "[model][load_teacher]") {
  test::temporary_folder const folder;
  test::save_hf(folder.path(), test::model_in_memory(test::small_config("llama")));  // 23 rows of vocabulary
  auto const without = ac::load_teacher<backend>(folder.path());
  REQUIRE_FALSE(without.has_tokenizer());
  REQUIRE_THROWS_AS(without.tokenizer(), ac::config_error);

  test::write_file(folder / "tokenizer.json", letters(22));
  auto const equal = ac::load_teacher<backend>(folder.path());
  REQUIRE(equal.tokenizer().vocab_size() == 23);
  REQUIRE(equal.tokenizer().encode("cab") == std::vector<std::int32_t>{2, 0, 1});

  test::write_file(folder / "tokenizer.json", letters(20));  // models are padded
  REQUIRE(ac::load_teacher<backend>(folder.path()).tokenizer().vocab_size() == 21);

  test::write_file(folder / "tokenizer.json", letters(23));
  auto const said = test::error_of([&] { (void)ac::load_teacher<backend>(folder.path()); });
  REQUIRE_THAT(said, ContainsSubstring("a tokenizer of 24 tokens, expected at most the model's 23") &&
                         ContainsSubstring(folder.path().string()));

  test::write_file(folder / "tokenizer.json", "{");
  REQUIRE_THROWS_WITH(ac::load_teacher<backend>(folder.path()), ContainsSubstring("tokenizer.json'"));
}
