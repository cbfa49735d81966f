// SPDX-License-Identifier: Apache-2.0
// Fuzzes the reader of torch.profiler's traces. Whatever the text, it either throws an InputError
// or returns seconds that are finite and not negative, by name and by unit.
#include "sim/base/errors.hpp"
#include "sim/formats/hf_config.hpp"
#include "sim/interchange/import_kineto.hpp"

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const athanor::Architecture architecture = athanor::load_architecture("gpt2-tiny");
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto open = [&] { return std::make_unique<std::istringstream>(text); };
  try {
    for (const bool by_unit : {false, true}) {
      const auto table =
          athanor::read_kineto_step(open, "input", std::nullopt, by_unit ? &architecture : nullptr);
      for (const athanor::KinetoRow& row : table.rows) {
        if (!std::isfinite(row.total()) || row.total() < 0) std::abort();
      }
    }
  } catch (const athanor::InputError&) {
    return 0;
  }
  return 0;
}
