// A tokenizer.json, and behind zeros the tokenizer_config.json and generation_config.json beside it.
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string_view>

#include "accrete/data/hf_tokenizer.hpp"
#include "accrete/data/tokenizer.hpp"
#include "fuzz.hpp"

namespace ac = accrete;

// JSON's 160 (see safetensors.cpp) and as much again for tokens, merges and their tables while it is still
// there. Ids may have 65,536 holes, which cost 40 bytes each twice over; Unicode's tables and PCRE2 are in the
// base, too.
extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  return fuzz::run(data, size, {std::size_t(32) << 20, 320}, [](std::string_view input) {
    constexpr std::array names{"tokenizer.json", "tokenizer_config.json", "generation_config.json"};
    for (std::size_t i = 0; i < names.size(); ++i)
      if (auto const text = fuzz::part(input, int(i)); i == 0 || !text.empty())
        fuzz::write(names[i], text);
      else
        std::filesystem::remove(fuzz::folder() / names[i]);
    fuzz::reads([] { fuzz::use(ac::data::tokenizer(ac::data::tokenizer_spec_from_hf(fuzz::folder()))); });
  });
}
