// SPDX-License-Identifier: Apache-2.0
// Fuzzes the readers of nvbandwidth's and nccl-tests' results. Whatever the text, they either throw
// an InputError or leave a valid platform that can be written and read back.
#include "sim/base/errors.hpp"
#include "sim/benchmarks/import_benchmarks.hpp"
#include "sim/formats/files.hpp"
#include "tests/support/synthetic.hpp"

#include <cstdint>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  athanor::Platform platform = athanor::test::synthetic_platform(4);
  try {
    athanor::import_benchmark({reinterpret_cast<const char*>(data), size}, "input", platform);
  } catch (const athanor::InputError&) {
    return 0;
  }
  // An exception here is a finding.
  (void)athanor::parse_platform(to_json(platform), "written");
  return 0;
}
