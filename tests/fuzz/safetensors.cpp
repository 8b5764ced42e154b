// A safetensors file: its metadata, every byte of every tensor.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "accrete/io/safetensors.hpp"
#include "fuzz.hpp"
#include "safetensors_mutator.hpp"

namespace ac = accrete;

// The dearest JSON is `[0,0,0`: a value of 96 bytes for every two, three times that while a vector grows.
extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  return fuzz::run(data, size, {std::size_t(1) << 18, 160}, [](std::string_view input) {
    auto const path = fuzz::write("model.safetensors", input);
    fuzz::reads([&] {
      ac::io::safetensors_file const file(path);
      for (auto const& [key, value] : file.metadata()) fuzz::touch(value.data(), value.size());
      for (auto const& t : file.tensors()) {
        if (file.find_tensor(t.name) != &t) fuzz::detail::fail("a tensor that is not found", t.name);
        fuzz::touch(t.bytes.data(), t.bytes.size());
      }
      (void)file.tensor("none");
    });
  });
}
