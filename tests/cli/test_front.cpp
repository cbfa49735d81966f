// SPDX-License-Identifier: Apache-2.0
#include "tests/cli/run_program.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace athanor::test {
namespace {

using Catch::Matchers::ContainsSubstring;

/// Copies the front program into a folder that holds no other program.
std::string lonely_front(const TemporaryFolder& folder) {
  const std::string copy = folder.file("athanor");
  std::filesystem::copy_file(ATHANOR_BIN_DIR "/athanor", copy);
  return copy;
}

void write_script(const std::string& path, const std::string& body) {
  std::ofstream(path) << "#!/bin/sh\n" << body;
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
}

}  // namespace

TEST_CASE("athanor --help lists every verb on stdout") {
  for (const char* flag : {"--help", "-h", "help"}) {
    const ProgramResult result = run_program("athanor", {flag});
    CHECK(result.exit_code == 0);
    CHECK(result.err.empty());
    for (const char* verb : {"calibrate", "profile", "simulate", "tune", "tokenize", "train",
                             "compare", "report", "show", "import", "pool", "doctor"}) {
      CHECK_THAT(result.out, ContainsSubstring(verb));
    }
  }
}

TEST_CASE("athanor --version names the program and its version") {
  const ProgramResult result = run_program("athanor", {"--version"});
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.out, Catch::Matchers::StartsWith("athanor "));
}

TEST_CASE("a missing or unknown verb is a usage error") {
  const ProgramResult none = run_program("athanor", {});
  CHECK(none.exit_code == 2);
  CHECK_THAT(none.err, ContainsSubstring("--help"));
  const ProgramResult unknown = run_program("athanor", {"fly"});
  CHECK(unknown.exit_code == 2);
  CHECK(unknown.out.empty());
  CHECK_THAT(unknown.err, ContainsSubstring("\"fly\"") && ContainsSubstring("simulate"));
}

TEST_CASE("a program that was not built is named") {
  const TemporaryFolder folder;
  const ProgramResult result = run_program(lonely_front(folder), {"train"});
  CHECK(result.exit_code == 1);
  CHECK_THAT(result.err, ContainsSubstring("athanor-train is not installed"));
}

TEST_CASE(
    "the program in the front's folder gets the verb and all arguments, and its exit code counts") {
  const TemporaryFolder folder;
  const std::string front = lonely_front(folder);
  write_script(folder.file("athanor-sim"), "printf '%s|' \"$@\"\nexit 4\n");
  const ProgramResult result = run_program(front, {"compare", "a run", "--tolerance", "5%"});
  CHECK(result.exit_code == 4);
  CHECK(result.out == "compare|a run|--tolerance|5%|");
}

TEST_CASE("a program in Python is started by the Python that is named") {
  const TemporaryFolder folder;
  const std::string front = lonely_front(folder);
  std::ofstream(folder.file("athanor-tokenize.pyz")) << "not run here";
  write_script(folder.file("python"), "printf '%s|' \"$@\"\nexit 3\n");
  setenv("ATHANOR_PYTHON", folder.file("python").c_str(), /*overwrite=*/1);
  const ProgramResult result = run_program(front, {"tokenize", "--seq", "8"});
  CHECK(result.exit_code == 3);
  CHECK(result.out == folder.file("athanor-tokenize.pyz") + "|tokenize|--seq|8|");
  setenv("ATHANOR_PYTHON", folder.file("nowhere").c_str(), /*overwrite=*/1);
  const ProgramResult missing = run_program(front, {"tokenize"});
  CHECK(missing.exit_code == 1);
  CHECK_THAT(missing.err, ContainsSubstring("cannot start") && ContainsSubstring("transformers"));
}

}  // namespace athanor::test
