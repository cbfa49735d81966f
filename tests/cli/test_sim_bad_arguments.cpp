// SPDX-License-Identifier: Apache-2.0
// Checks that bad arguments and files give exit code 2, nothing on stdout, and a message that names
// the culprit.
#include "sim/base/text_file.hpp"
#include "sim/formats/files.hpp"
#include "tests/cli/sim_fixture.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

namespace athanor::test {
namespace {

using Catch::Matchers::ContainsSubstring;

struct BadCase {
  std::string verb;
  std::vector<std::string> arguments;  ///< arguments after the fixture's workload
  std::string says;
};

void check_refused(const ProgramResult& result, const std::string& says) {
  CHECK(result.exit_code == 2);
  CHECK(result.out.empty());
  CHECK_THAT(result.err, ContainsSubstring(says));
}

}  // namespace

TEST_CASE_METHOD(SimFixture, "bad options of simulate and tune are usage errors") {
  const std::vector<BadCase> cases{
      {"simulate", {}, "--policy"},
      {"simulate", {"--policy", "zero4"}, "zero4"},
      {"simulate", {"--policy", ""}, "--policy"},
      {"simulate", {"--policy", "ddp", "--plan", "p.json"}, "--plan"},
      {"simulate", {"--plan", "/nonexistent/plan.json"}, "/nonexistent/plan.json"},
      {"simulate", {"--policy", "ddp", "--gpu-memory", "40 apples"}, "--gpu-memory"},
      {"simulate", {"--policy", "ddp", "--gpu-memory", "-1GiB"}, "--gpu-memory"},
      {"simulate", {"--policy", "ddp", "--gpu-memory", "0"}, "--gpu-memory"},
      {"simulate", {"--policy", "ddp", "--host-memory", "nan"}, "--host-memory"},
      {"simulate", {"--policy", "ddp", "--host-memory", "99999999999999TiB"}, "--host-memory"},
      {"simulate", {"--policy", "ddp", "--clip", "-1"}, "--clip"},
      {"simulate", {"--policy", "ddp", "--clip", "nan"}, "--clip"},
      {"simulate", {"--policy", "ddp", "--micro-batch", "3"}, "--micro-batch"},
      {"simulate", {"--policy", "ddp", "--micro-batch", "two"}, "--micro-batch"},
      {"simulate", {"--policy", "ddp", "--adam-threads", "3"}, "--adam-threads"},
      {"simulate", {"--policy", "ddp", "--unknown"}, "--unknown: unknown option"},
      {"simulate", {"--polcy", "ddp"}, "--polcy: unknown option. Is it '--policy'?"},
      {"tune", {"--batch=8", "--host-mem=3GiB"}, "--batch: unknown option"},
      {"tune", {"--host-mem=3GiB"}, "Is it '--host-memory'?"},
      {"simulate", {"--policy", "ddp", "extra"}, "extra"},
      {"tune", {"--top", "0"}, "--top"},
      {"tune", {"--top", "-3"}, "--top"},
      {"tune", {"--policy", "ddp"}, "--policy"},
  };
  for (const BadCase& bad : cases) {
    CAPTURE(bad.verb, bad.arguments);
    check_refused(run(bad.verb, bad.arguments), bad.says);
  }
}

TEST_CASE_METHOD(SimFixture, "bad workloads are usage errors") {
  const std::string profile_file = folder.file("profile.json");
  const std::string platform_file = folder.file("platform.json");
  const auto tune = [&](const std::string& gpus, const std::string& batch) {
    return run_program("athanor-sim", {"tune", "--profile", profile_file, "--platform",
                                       platform_file, "--gpus", gpus, "--global-batch", batch});
  };
  check_refused(tune("0", "8"), "--gpus");
  check_refused(tune("-2", "8"), "--gpus");
  check_refused(tune("64", "64"), "--gpus");
  check_refused(tune("99999999999", "8"), "--gpus");
  check_refused(tune("2", "7"), "--global-batch");
  check_refused(tune("2", "0"), "--global-batch");
  check_refused(run_program("athanor-sim", {"tune", "--profile", profile_file}), "--platform");
  check_refused(run_program("athanor-sim", {}), "subcommand");
  check_refused(run_program("athanor-sim", {"fly"}), "subcommand");
  check_refused(run_program("athanor-sim", {"show"}), "kind");
  check_refused(run_program("athanor-sim", {"show", "cake", profile_file}), "cake");
  check_refused(run_program("athanor-sim", {"show", "model", "no-such-model"}), "no-such-model");
  check_refused(run_program("athanor-sim", {"show", "profile", profile_file, "--as", "chakra"}),
                "table or json");
  check_refused(run_program("athanor-sim", {"compare", folder.file("nothing")}), "nothing");
  check_refused(run_program("athanor-sim", {"compare", folder.path(), "--tolerance", "much"}),
                "--tolerance");
}

TEST_CASE_METHOD(SimFixture, "bad files are named, with the error in them") {
  const std::string broken = folder.file("broken.json");
  const auto simulate_profile = [&](const std::string& text) {
    write_file_atomically(broken, text);
    return run_program("athanor-sim",
                       {"simulate", "--profile", broken, "--platform", folder.file("platform.json"),
                        "--gpus", "1", "--global-batch", "4", "--policy", "ddp"});
  };
  check_refused(simulate_profile(""), "broken.json");
  check_refused(simulate_profile("{\"schema\": \"athanor.profile/1\""), "broken.json");
  check_refused(simulate_profile(to_json(platform)), "broken.json");
  std::string text = to_json(profile);
  check_refused(simulate_profile(text.substr(0, text.size() / 2)), "broken.json");
}

TEST_CASE_METHOD(SimFixture, "a plan and options that contradict it are refused") {
  REQUIRE(run("tune", {"--micro-batch", "4", "-o", folder.file("plan.json")}).exit_code == 0);
  const auto simulate = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"simulate", "--plan", folder.file("plan.json")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_program("athanor-sim", arguments);
  };
  CHECK(simulate({"--gpus", "2"}).exit_code == 0);
  check_refused(simulate({"--gpus", "4"}), "--gpus");
  check_refused(simulate({"--global-batch", "16"}), "--global-batch");
  check_refused(simulate({"--clip", "1"}), "--clip");
}

TEST_CASE_METHOD(SimFixture, "an output that cannot be written fails with its path") {
  const ProgramResult result =
      run("tune", {"--micro-batch", "4", "-o", "/nonexistent/folder/plan.json"});
  CHECK(result.exit_code == 2);
  CHECK_THAT(result.err, ContainsSubstring("--output: there is no folder /nonexistent/folder"));
  const ProgramResult all = run("tune", {"--micro-batch", "4", "--all", "/proc/all.jsonl"});
  CHECK_THAT(all.err, ContainsSubstring("/proc"));
  check_refused(run("tune", {"--micro-batch", "4", "-o", folder.file("")}), "is a folder");
}

TEST_CASE_METHOD(SimFixture, "a plan of another model is refused by its file") {
  const std::string plan_path = folder.file("other.json");
  REQUIRE(run("tune", {"--micro-batch", "4", "-o", plan_path}).exit_code == 0);
  Plan plan = read_plan(plan_path);
  plan.units.pop_back();
  write_file_atomically(plan_path, to_json(plan));
  const std::string profile_file = folder.file("profile.json");
  const std::vector<std::vector<std::string>> uses{
      {"simulate", "--plan", plan_path},
      {"show", "memory", plan_path, "--profile", profile_file},
      {"report", plan_path, "--profile", profile_file}};
  for (const std::vector<std::string>& words : uses) {
    CAPTURE(words);
    check_refused(run_program("athanor-sim", words), plan_path + ":units: ");
  }
}

TEST_CASE_METHOD(SimFixture, "show refuses options that are for other kinds") {
  const std::string profile_file = folder.file("profile.json");
  const std::string platform_file = folder.file("platform.json");
  const auto refused = [](std::vector<std::string> words, const std::string& says) {
    words.insert(words.begin(), "show");
    CAPTURE(words);
    check_refused(run_program("athanor-sim", words), says);
  };
  refused({"profile", profile_file, "--split-blocks"}, "--split-blocks: is for a model");
  refused({"model", "gpt2", "--profile", profile_file}, "--profile: is for memory and program");
  refused({"model", "gpt2", "--platform", platform_file}, "--platform: is for program");
  refused({"platform", platform_file, "--platform", platform_file}, "--platform: is for program");
  refused({"program", "p.json", "--platform", platform_file}, "--platform: is for program");
  refused({"memory", "p.json", "--split-blocks"}, "--split-blocks: is for a model");
}

TEST_CASE("every verb has --help and --version on stdout, and so has the program") {
  for (const char* verb : {"simulate", "tune", "show", "compare", "report", "import"}) {
    CHECK_THAT(run_program("athanor-sim", {verb, "--version"}).out,
               Catch::Matchers::StartsWith("athanor "));
    const ProgramResult result = run_program("athanor-sim", {verb, "--help"});
    CHECK(result.exit_code == 0);
    CHECK(result.err.empty());
    CHECK_THAT(result.out, ContainsSubstring(verb));
  }
  CHECK_THAT(run_program("athanor-sim", {"--version"}).out,
             Catch::Matchers::StartsWith("athanor "));
}

}  // namespace athanor::test
