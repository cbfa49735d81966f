// SPDX-License-Identifier: Apache-2.0
// Holds the example files in platforms/ and traces/ to the synthetic machine and model.
#include "sim/base/text_file.hpp"
#include "sim/formats/files.hpp"
#include "sim/formats/hf_config.hpp"
#include "tests/cli/sim_fixture.hpp"

#include <catch2/catch_test_macros.hpp>

namespace athanor::test {
namespace {

/// Checks the file. If it differs, writes the expected content into the tests' folder, to be looked
/// at and copied.
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

TEST_CASE("the example platform and profile are up to date and marked synthetic") {
  const Profile profile = synthetic_profile(load_architecture("gpt2-tiny"), 128, {1, 2, 4, 8});
  check_example("platforms/example-cpu.json", to_json(synthetic_platform(8)));
  check_example("traces/example-gpt2-tiny.profile.json", to_json(profile));
  CHECK(profile.provenance.source == Source::Synthetic);
}

TEST_CASE("the example files tune as documented") {
  const ProgramResult result = run_program(
      "athanor", {"tune", "--profile", ATHANOR_SOURCE_DIR "/traces/example-gpt2-tiny.profile.json",
                  "--platform", ATHANOR_SOURCE_DIR "/platforms/example-cpu.json", "--gpus", "2",
                  "--global-batch", "16", "--gpu-memory", "24MiB"});
  CHECK(result.err.empty());
  CHECK(result.exit_code == 0);
}

}  // namespace athanor::test
