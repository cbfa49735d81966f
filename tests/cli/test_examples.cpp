// SPDX-License-Identifier: Apache-2.0
// The example files in platforms/ and traces/ are what the synthetic machine and model say.
#include "sim/base/text_file.hpp"
#include "sim/formats/files.hpp"
#include "sim/formats/hf_config.hpp"
#include "tests/cli/sim_fixture.hpp"

#include <catch2/catch_test_macros.hpp>

namespace athanor::test {
namespace {

/// Where they differ, the expected content is left beside the tests to be looked at and copied.
void check_example(const std::string& name, const std::string& expected) {
  const std::string path = ATHANOR_SOURCE_DIR "/" + name;
  const std::string candidate =
      ATHANOR_BIN_DIR "/../" + std::filesystem::path(name).filename().string() + ".expected";
  const bool equal = std::filesystem::exists(path) && read_text_file(path) == expected;
  if (!equal) write_file_atomically(candidate, expected);
  INFO(path << " should be " << candidate);
  CHECK(equal);
}

}  // namespace

TEST_CASE("The example platform and profile are up to date and marked synthetic") {
  const Profile profile = synthetic_profile(load_architecture("gpt2-tiny"), 128, {1, 2, 4, 8});
  check_example("platforms/example-cpu.json", to_json(synthetic_platform(8)));
  check_example("traces/example-gpt2-tiny.profile.json", to_json(profile));
  CHECK(profile.provenance.source == Source::Synthetic);
}

TEST_CASE("The example files tune as documented") {
  const ProgramResult result = run_program(
      "athanor", {"tune", "--profile", ATHANOR_SOURCE_DIR "/traces/example-gpt2-tiny.profile.json",
                  "--platform", ATHANOR_SOURCE_DIR "/platforms/example-cpu.json", "--gpus", "2",
                  "--global-batch", "16", "--gpu-memory", "24MiB"});
  CHECK(result.err.empty());
  CHECK(result.exit_code == 0);
}

}  // namespace athanor::test
