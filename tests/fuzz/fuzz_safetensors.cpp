// SPDX-License-Identifier: Apache-2.0
// Fuzzes the safetensors reader. Whatever the bytes, it either throws an InputError or returns
// tensors that lie inside the file, one after the other.
#include "executor/io/safetensors_header.hpp"
#include "sim/base/errors.hpp"

#include <cstdint>
#include <cstdlib>
#include <span>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> file = std::as_bytes(std::span(data, size));
  try {
    const athanor::SafetensorsHeader header = athanor::parse_safetensors(file, "input");
    std::size_t end = header.data_begin;
    for (const athanor::TensorEntry& tensor : header.tensors) {
      if (header.data_begin + static_cast<std::size_t>(tensor.offset) != end) std::abort();
      end += static_cast<std::size_t>(tensor.bytes());
    }
    if (end != size) std::abort();
  } catch (const athanor::InputError&) {
    return 0;
  }
  return 0;
}
