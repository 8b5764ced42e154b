#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace fuzz {

/// Three times of four changes the header or the data of a safetensors file and sets the header's length to
/// what it is then: otherwise every insertion would end at the length's check.
inline std::size_t mutate_safetensors(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                      unsigned seed) {
  std::uint64_t length = 0;
  if (size < 8 || max_size < 64 || seed % 4 == 0) return LLVMFuzzerMutate(data, size, max_size);
  std::memcpy(&length, data, 8);
  if (length > size - 8) length = size - 8;
  std::string header(reinterpret_cast<char const*>(data) + 8, std::size_t(length));
  std::string rest(reinterpret_cast<char const*>(data) + 8 + length, size - 8 - std::size_t(length));
  std::string& changed = seed % 4 == 1 ? rest : header;
  std::size_t const before = changed.size();
  std::size_t const room = max_size - size + before;
  changed.resize(room);
  changed.resize(LLVMFuzzerMutate(reinterpret_cast<std::uint8_t*>(changed.data()), before, room));
  length = header.size();
  std::memcpy(data, &length, 8);
  std::memcpy(data + 8, header.data(), header.size());
  std::memcpy(data + 8 + header.size(), rest.data(), rest.size());
  return 8 + header.size() + rest.size();
}

}  // namespace fuzz

/// Found by name, so it is no inline function: one header for one program of one file.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  return fuzz::mutate_safetensors(data, size, max_size, seed);
}
