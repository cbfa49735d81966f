// SPDX-License-Identifier: Apache-2.0
// Fuzzes the token readers. Whatever the bytes, they either throw an InputError or return a layout
// inside the file.
#include "executor/data/token_formats.hpp"
#include "sim/base/errors.hpp"

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <span>

namespace {

/// Aborts where a layout leaves its file, even if tokens take one byte. No token type is narrower
/// than one byte or wider than eight.
void check(const std::function<athanor::TokenLayout()>& parse, std::size_t size) {
  try {
    const athanor::TokenLayout layout = parse();
    const bool fits = layout.count >= 0 && layout.begin <= size &&
                      static_cast<std::size_t>(layout.count) <= size - layout.begin;
    if (!fits) std::abort();
  } catch (const athanor::InputError&) {
    return;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> file = std::as_bytes(std::span(data, size));
  for (const auto format : {athanor::TokenFormat::Auto, athanor::TokenFormat::UInt32}) {
    check([&] { return athanor::parse_token_file(file, format, "input.bin"); }, size);
  }
  if (size == 0) return 0;
  const std::size_t bin_bytes = data[size - 1];
  const auto index = file.first(size - 1);
  check([&] { return athanor::parse_megatron_index(index, bin_bytes, "input.idx"); }, bin_bytes);
  return 0;
}
