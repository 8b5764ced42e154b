// A GGUF file: what is in it, the model it holds, the tokenizer inside.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "accrete/data/gguf_tokenizer.hpp"
#include "accrete/data/tokenizer.hpp"
#include "accrete/io/dequantize.hpp"
#include "accrete/io/gguf.hpp"
#include "accrete/io/gguf_weights.hpp"
#include "fuzz.hpp"

namespace ac = accrete;

// A token of 8 bytes becomes two strings, a view and a place in two tables; a merge of 11 bytes two slots of a
// hash table that is half empty. The base holds what PCRE2 needs to compile the pattern of a named split and
// the tables of Unicode's NFC.
extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  return fuzz::run(data, size, {std::size_t(6) << 20, 40}, [](std::string_view input) {
    auto const path = fuzz::write("model.gguf", input);
    bool const whole = fuzz::reads([&] {
      ac::io::gguf_file const file(path);
      std::vector<float> row;
      for (auto const& t : file.tensors()) {
        if (file.find_tensor(t.name) != &t) fuzz::detail::fail("a tensor that is not found", t.name);
        fuzz::touch(t.bytes.data(), t.bytes.size());
        row.resize(std::size_t(t.columns()));
        fuzz::reads([&] {
          for (ac::index_t r = 0; r < t.rows(); ++r)
            ac::io::dequantize_rows(t, r, ac::view<float, 2>(row.data(), {1, t.columns()}));
        });
      }
    });
    if (!whole) return;
    fuzz::reads(
        [&] { fuzz::use(ac::data::tokenizer(ac::data::tokenizer_spec_from_gguf(ac::io::gguf_file(path)))); });
    fuzz::reads([&] { fuzz::read_all(ac::io::gguf_weights(path)); });
  });
}
