// SPDX-License-Identifier: Apache-2.0
// Fuzzes one reader of JSON text per target (ATHANOR_FUZZ_*). Whatever the text, the reader either
// throws an InputError or returns a value that stays the same when written and read back.
#include "sim/base/errors.hpp"
#include "sim/formats/files.hpp"
#include "sim/formats/hf_config.hpp"
#include "sim/formats/traced_model.hpp"
#include "sim/model/architecture.hpp"

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

namespace {

/// Returns the canonical text of the value in `text`.
std::string rewrite(std::string_view text) {
#if defined(ATHANOR_FUZZ_PROFILE)
  return to_json(athanor::parse_profile(text, "input.json"));
#elif defined(ATHANOR_FUZZ_PLATFORM)
  return to_json(athanor::parse_platform(text, "input.json"));
#elif defined(ATHANOR_FUZZ_TRACED)
  const auto folder = athanor::parse_traced_model(text, "input.json");
  (void)folder.graph_file(0, athanor::DataType::Float32);
  return std::string(text);  // no such file is written
#elif defined(ATHANOR_FUZZ_RATES)
  return to_json(athanor::parse_rates(text, "input.json"));
#elif defined(ATHANOR_FUZZ_PLAN)
  return to_json(athanor::parse_plan(text, "input.json"));
#else
  const auto architecture = athanor::parse_architecture("fuzzed", text, "input.json");
  (void)architecture.num_parameters();
  if (!architecture.language_model) return std::string(text);  // no such config is written
  return write_hf_config(*architecture.language_model, athanor::DataType::Float32);
#endif
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string once;
  try {
    once = rewrite({reinterpret_cast<const char*>(data), size});
  } catch (const athanor::InputError&) {
    return 0;
  }
  if (rewrite(once) != once) {  // an exception here is a finding too
    std::abort();
  }
  return 0;
}
