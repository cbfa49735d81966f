// SPDX-License-Identifier: Apache-2.0
// Names of platforms and profiles that an installation brings, with an installation of one program.
#include "tests/cli/run_program.hpp"
#include "tests/cli/sim_fixture.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <filesystem>

namespace athanor::test {
namespace {

using Catch::Matchers::ContainsSubstring;
namespace fs = std::filesystem;

struct Installation {
  SimFixture files;
  TemporaryFolder folder;
  std::string program = folder.file("bin/athanor-sim");

  Installation() {
    const fs::path share = folder.path() / "share" / "athanor";
    fs::create_directories(folder.path() / "bin");
    fs::create_directories(share / "platforms");
    fs::create_directories(share / "profiles");
    fs::copy_file(ATHANOR_BIN_DIR "/athanor-sim", program);
    fs::copy_file(files.folder.file("platform.json"), share / "platforms" / "h100x4.json");
    fs::copy_file(files.folder.file("profile.json"), share / "profiles" / "tiny.profile.json");
  }
  [[nodiscard]] ProgramResult tune(const std::string& profile, const std::string& platform) const {
    return run_program(program, {"tune", "--profile", profile, "--platform", platform, "--gpus",
                                 "2", "--global-batch", "8"});
  }
};

TEST_CASE("the name of an installed platform or profile stands for its file") {
  const Installation installed;
  const ProgramResult by_name = installed.tune("tiny", "h100x4");
  const ProgramResult by_path = installed.tune(installed.files.folder.file("profile.json"),
                                               installed.files.folder.file("platform.json"));
  CHECK(by_name.exit_code == 0);
  CHECK(by_name.out == by_path.out);
  CHECK(run_program(installed.program, {"show", "profile", "tiny"}).exit_code == 0);
}

TEST_CASE("a name that is not installed is answered with those that are") {
  const Installation installed;
  const ProgramResult platform = installed.tune("tiny", "h10x4");
  CHECK(platform.exit_code == 2);
  CHECK_THAT(platform.err, ContainsSubstring("Is it 'h100x4'?"));
  const ProgramResult profile = installed.tune("huge", "h100x4");
  CHECK(profile.exit_code == 2);
  CHECK_THAT(profile.err, ContainsSubstring("Installed: tiny."));
}

TEST_CASE("show lists the installed names where no file is given") {
  const Installation installed;
  const ProgramResult platforms = run_program(installed.program, {"show", "platform"});
  CHECK(platforms.exit_code == 0);
  CHECK(platforms.out == "h100x4\n");
  CHECK(run_program(installed.program, {"show", "profile"}).out == "tiny\n");
  CHECK(run_program(installed.program, {"show", "plan"}).exit_code == 2);
  CHECK(run_program("athanor-sim", {"show", "platform"}).exit_code == 2);
}

TEST_CASE("a path is no name, and a build has none") {
  const Installation installed;
  CHECK_THAT(installed.tune("tiny", "./h100x4").err, !ContainsSubstring("Installed"));
  CHECK_THAT(installed.tune("tiny", "h100x4.json").err, !ContainsSubstring("Installed"));
  CHECK_THAT(run_program("athanor-sim", {"show", "platform", "h100x4"}).err,
             ContainsSubstring("h100x4") && !ContainsSubstring("Installed"));
}

}  // namespace
}  // namespace athanor::test
