// A checkpoint, also under the checksum that what it says should have; read into the weights it was made of.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "accrete/train/checkpoint_file.hpp"
#include "accrete/train/checkpoint_tensors.hpp"
#include "accrete/train/run_facts.hpp"
#include "fuzz.hpp"
#include "safetensors_mutator.hpp"
#include "small_student.hpp"

namespace ac = accrete;

namespace {
void read(std::filesystem::path const& path) {
  fuzz::small_student student;
  fuzz::reads([&] {
    ac::train::checkpoint_file const file(path);
    (void)file.state().step();
    (void)file.state().evaluated();
    fuzz::reads([&] {
      (void)ac::train::compare({{"teacher", "tiny", ac::train::run_fact::change::refused},
                                {"note", "one", ac::train::run_fact::change::allowed}},
                               file.facts(), {}, file.where());
    });
    file.read_parameters(student.parameters());
  });
}
/// No mutation finds a checksum that fits.
std::string mended(std::string text, std::filesystem::path const& path) {
  fuzz::reads([&] {
    ac::io::safetensors_file const file(path);
    auto const at = file.metadata().find("checksum");
    if (at == file.metadata().end() || at->second.size() != 32) return;
    auto const place = text.find(at->second);
    if (place != text.npos)
      text.replace(place, 32, ac::train::detail::checksum(file.metadata(), file.tensors()));
  });
  return text;
}
}  // namespace

// JSON's 160 (see safetensors.cpp), and the JSON inside of its metadata.
extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  return fuzz::run(data, size, {std::size_t(1) << 18, 320}, [](std::string_view input) {
    auto const path = fuzz::write("step-00000001.safetensors", input);
    read(path);
    read(fuzz::write("mended.safetensors", mended(std::string(input), path)));
  });
}
