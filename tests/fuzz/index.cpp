// The model.safetensors.index.json of a model directory whose config and shards are sound.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "accrete/io/hf_weights.hpp"
#include "fuzz.hpp"
#include "models.hpp"

namespace ac = accrete;

// JSON's 160 (see safetensors.cpp); in the base is what is kept of three sound headers.
extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  static auto const folder =
      test::save_hf(fuzz::folder() / "llama", fuzz::tiny_model("llama"), {.newer_rope = false, .shards = 3});
  return fuzz::run(data, size, {std::size_t(1) << 18, 160}, [](std::string_view input) {
    test::write_file(folder / "model.safetensors.index.json", input);
    fuzz::reads([&] { fuzz::read_all(ac::io::hf_weights(folder)); });
  });
}
