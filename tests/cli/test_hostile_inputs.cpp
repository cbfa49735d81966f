// SPDX-License-Identifier: Apache-2.0
// Each option that takes a file meets files of every other kind: a message that names it, at once
// and in little memory.
#include "sim/base/printable.hpp"
#include "sim/base/text_file.hpp"
#include "tests/cli/sim_fixture.hpp"
#include "tests/support/hostile_files.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>

namespace athanor::test {
namespace {

using Catch::Matchers::ContainsSubstring;

constexpr const char* kHostile = "HOSTILE";  ///< stands for the file in the words below

/// Returns command lines of athanor-sim in which one file is hostile and all others are good.
std::vector<std::vector<std::string>> commands(const SimFixture& fixture) {
  const std::string profile = fixture.folder.file("profile.json");
  const std::string platform = fixture.folder.file("platform.json");
  const std::string plan = fixture.folder.file("plan.json");
  const auto with = [&](const std::string& verb, const std::string& a, const std::string& b,
                        std::vector<std::string> more) {
    std::vector<std::string> words{verb, "--profile",      a,  "--platform", b, "--gpus",
                                   "2",  "--global-batch", "8"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  return {
      with("simulate", kHostile, platform, {"--policy", "ddp"}),
      with("simulate", profile, kHostile, {"--policy", "ddp"}),
      with("simulate", profile, platform, {"--policy", "ddp", "--profile-platform", kHostile}),
      with("simulate", profile, platform, {"--plan", kHostile}),
      with("simulate", profile, platform, {"--deepspeed", kHostile}),
      with("simulate", profile, platform, {"--accelerate", kHostile}),
      with("simulate", profile, platform, {"--torchtitan", kHostile}),
      with("tune", kHostile, platform, {}),
      with("tune", profile, kHostile, {}),
      with("tune", profile, platform, {"--profile-platform", kHostile}),
      {"compare", kHostile},
      {"report", kHostile, "-o", fixture.folder.file("out.html")},
      {"report", plan, "--profile", kHostile, "-o", fixture.folder.file("out.html")},
      {"report", plan, "--platform", kHostile, "-o", fixture.folder.file("out.html")},
      {"show", "model", kHostile},
      {"show", "memory", kHostile},
      {"show", "plan", kHostile},
      {"show", "program", kHostile},
      {"show", "platform", kHostile},
      {"show", "profile", kHostile},
      {"show", "memory", plan, "--profile", kHostile},
      {"show", "program", plan, "--profile", profile, "--platform", kHostile, "--as", "chakra"},
      {"import", kHostile},
      {"import", kHostile, "--into", platform, "-o", fixture.folder.file("out.json")},
      {"import", profile, "--into", kHostile, "-o", fixture.folder.file("out.json")},
      {"import", profile, "--base", kHostile, "--micro-batch", "1", "-o",
       fixture.folder.file("out.json")},
      {"import", profile, "--architecture", kHostile},
  };
}

void check_answer(std::vector<std::string> words, const HostileFile& file) {
  std::replace(words.begin(), words.end(), std::string(kHostile), file.path);
  constexpr unsigned kHang = 20;  // a second, on a machine that does nothing else
  constexpr long kMost = 200 * 1024;
  const ProgramResult result = run_program("athanor-sim", words, kHang);
  CAPTURE(words, file.what, result.err);
  CHECK(result.exit_code == 2);
  CHECK(result.out.empty());
  CHECK(result.peak_kib < kMost);
  CHECK_THAT(result.err, ContainsSubstring("error: ") && ContainsSubstring(printable(file.path)));
  CHECK(printable(result.err, LineEnds::Kept) == result.err);
  CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 1);
}

}  // namespace

TEST_CASE_METHOD(SimFixture, "every option that takes a file answers to files of other kinds") {
  REQUIRE(run("tune", {"--micro-batch", "4", "-o", folder.file("plan.json")}).exit_code == 0);
  const TemporaryFolder hostile;
  for (const HostileFile& file : hostile_files(hostile, ".json")) {
    for (const std::vector<std::string>& words : commands(*this)) check_answer(words, file);
  }
}

TEST_CASE_METHOD(SimFixture, "a file in the place of another says which one belongs there") {
  const std::string profile_file = folder.file("profile.json");
  const std::string config = folder.file("config.json");
  write_file_atomically(config, R"({"model_type": "gpt2"})");
  const auto check = [&](const std::string& plan, const std::string& named) {
    const ProgramResult result = run_program(
        "athanor-sim", {"simulate", "--plan", plan, "--profile", named, "--platform", named});
    CAPTURE(result.err);
    CHECK(result.exit_code == 2);
    CHECK_THAT(result.err, ContainsSubstring("Name the profile that `athanor profile` wrote") ||
                               ContainsSubstring("Name the plan that `athanor tune` wrote"));
  };
  REQUIRE(run("tune", {"--micro-batch", "4", "-o", folder.file("plan.json")}).exit_code == 0);
  check(profile_file, profile_file);
  check(folder.file("plan.json"), folder.file("platform.json"));
  check(folder.file("plan.json"), config);
}

TEST_CASE_METHOD(SimFixture, "no output is written over an input, by whatever name") {
  const std::string profile_file = folder.file("profile.json");
  const std::string platform_file = folder.file("platform.json");
  std::filesystem::create_hard_link(profile_file, folder.file("link.json"));
  const auto check = [&](const ProgramResult& result) {
    CAPTURE(result.err);
    CHECK(result.exit_code == 2);
    CHECK_THAT(result.err, ContainsSubstring("is an input, and would be lost"));
  };
  const std::string before = read_text_file(profile_file);
  check(run("tune", {"-o", profile_file}));
  check(run("tune", {"-o", folder.file("link.json")}));
  check(run("tune", {"-o", folder.path().string() + "/./platform.json"}));
  check(run("tune", {"--all", platform_file}));
  check(run("simulate", {"--policy", "ddp", "--trace", profile_file}));
  check(run_program("athanor-sim",
                    {"import", profile_file, "--into", platform_file, "-o", profile_file}));
  CHECK(read_text_file(profile_file) == before);
}

TEST_CASE_METHOD(SimFixture, "numbers out of range say the range in plain figures") {
  const auto check = [](const ProgramResult& result, const std::string& option,
                        const std::string& says) {
    CAPTURE(option, result.err);
    CHECK(result.exit_code == 2);
    CHECK_THAT(result.err, ContainsSubstring(option) && ContainsSubstring(says));
    CHECK(result.err.size() < 300);
  };
  const std::string range = "from 1 to 1000000000";
  check(run("tune", {"--top", "0"}), "--top", range);
  check(run("tune", {"--micro-batch", "9223372036854775807"}), "--micro-batch", range);
  check(run("tune", {"--adam-threads", "1.5"}), "--adam-threads", range);
  check(run("tune", {"--adam-threads", "99999999999999999999"}), "--adam-threads", "out of range");
  const auto tune = [&](const std::string& gpus, const std::string& batch) {
    return run_program("athanor-sim",
                       {"tune", "--profile", folder.file("profile.json"), "--platform",
                        folder.file("platform.json"), "--gpus", gpus, "--global-batch", batch});
  };
  check(tune("0", "8"), "--gpus", range);
  check(tune("2", "9223372036854775807"), "--global-batch", range);
}

}  // namespace athanor::test
