// A token shard: opened as a corpus, twice in one, split, walked through.
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string_view>

#include "accrete/data/document_order.hpp"
#include "accrete/data/open.hpp"
#include "accrete/data/ragged_batch.hpp"
#include "accrete/data/shard.hpp"
#include "accrete/data/split_validation.hpp"
#include "accrete/data/token_shard.hpp"
#include "fuzz.hpp"
#include "safetensors_mutator.hpp"
#include "small_tokenizer.hpp"

namespace ac = accrete;

// JSON's 160 (see safetensors.cpp); of the text only orders of documents are in memory, and a batch.
extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  static ac::data::tokenizer const words = fuzz::small_tokenizer();
  return fuzz::run(data, size, {std::size_t(1) << 18, 160}, [](std::string_view input) {
    auto const path = fuzz::write("tokens-00000.safetensors", input);
    fuzz::reads([&] {
      ac::data::token_shard const shard(path);
      for (ac::index_t t = 0; t < shard.num_texts(); ++t) (void)shard.text_start(t);
      for (ac::index_t d = 0; d < shard.num_documents(); ++d) (void)shard.document(d).to_vector();
    });
    ac::data::open_options const options{.cut = {ac::data::cutting::windows, 8}};
    fuzz::reads([&] { (void)ac::data::open(fuzz::folder(), words, options).identity(); });
    fuzz::reads([&] {
      std::array<std::filesystem::path, 2> const both{path, path};
      auto const all = ac::data::open(both, words, options);
      (void)all.num_tokens();
      auto const parts = ac::data::split_validation(all, 2, ac::seed{3});
      auto const order = ac::data::whole_shard(parts.training, ac::seed{3});
      (void)ac::data::shard_for(parts.training, order, 1, 16);
      ac::data::document_iterator at(parts.training, order, ac::seed{3});
      ac::data::ragged_batch batch;
      for (int i = 0; i < 4; ++i) at.next_batch(batch, 16);
    });
  });
}
