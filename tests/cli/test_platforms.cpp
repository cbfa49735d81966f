// SPDX-License-Identifier: Apache-2.0
// Takes the platform files of the tree as a user does.
#include "sim/formats/files.hpp"
#include "tests/cli/sim_fixture.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <filesystem>

namespace athanor::test {

using Catch::Matchers::ContainsSubstring;

TEST_CASE_METHOD(SimFixture, "every platform file of the tree can be shown and simulated") {
  for (const auto& entry : std::filesystem::directory_iterator(ATHANOR_SOURCE_DIR "/platforms")) {
    if (entry.path().extension() != ".json") continue;
    CAPTURE(entry.path());
    const Platform machine = read_platform(entry.path());
    const ProgramResult shown = run_program("athanor", {"show", "platform", entry.path()});
    CHECK(shown.exit_code == 0);
    CHECK_THAT(shown.out, ContainsSubstring(machine.name));
    const std::string gpus = std::to_string(machine.num_devices);
    const ProgramResult simulated =
        run_program("athanor", {"simulate", "--profile", folder.file("profile.json"), "--platform",
                                entry.path(), "--gpus", gpus, "--global-batch", gpus, "--policy",
                                "zero3-offload", "--json"});
    REQUIRE(simulated.exit_code == 0);
    CHECK(nlohmann::json::parse(simulated.out).at("step_seconds").get<double>() > 0);
  }
}

}  // namespace athanor::test
