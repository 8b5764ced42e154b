// The config.json of a model directory whose weights are sound, and behind a zero its generation_config.json.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "accrete/io/hf_weights.hpp"
#include "fuzz.hpp"
#include "models.hpp"

namespace ac = accrete;

// JSON's 160 (see safetensors.cpp); the weights beside are mapped, what is kept of their header is in the base.
extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  static bool const made = [] {
    for (auto const* const name : {"llama", "qwen2", "qwen3", "accrete"})
      test::save_hf(fuzz::folder() / name, fuzz::tiny_model(name));
    return true;
  }();
  (void)made;
  return fuzz::run(data, size, {std::size_t(1) << 18, 160}, [](std::string_view input) {
    auto const config = fuzz::part(input, 0), generation = fuzz::part(input, 1);
    auto const folder = fuzz::folder() / fuzz::architecture_in(config);
    test::write_file(folder / "config.json", config);
    if (generation.empty())
      std::filesystem::remove(folder / "generation_config.json");
    else
      test::write_file(folder / "generation_config.json", generation);
    fuzz::reads([&] { fuzz::read_all(ac::io::hf_weights(folder)); });
  });
}
