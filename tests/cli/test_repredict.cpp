// SPDX-License-Identifier: Apache-2.0
#include "sim/base/text_file.hpp"
#include "sim/formats/files.hpp"
#include "sim/rates/measure_rates.hpp"
#include "tests/cli/run_fixture.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

namespace athanor::test {
namespace {

using Catch::Approx;
using Catch::Matchers::ContainsSubstring;

/// Whether the process runs: it has not ended, and is not about to.
bool is_running(const std::string& process) {
  std::ifstream file("/proc/" + process + "/stat");
  const std::string stat{std::istreambuf_iterator<char>(file), {}};
  const std::size_t bracket = stat.rfind(')');
  return bracket != std::string::npos && stat[bracket + 2] != 'Z';
}

bool ends_within(const std::string& process, int tenths) {
  for (int i = 0; i < tenths && is_running(process); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return !is_running(process);
}

}  // namespace

TEST_CASE_METHOD(RunFixture, "repredict takes the rates of a run's first steps") {
  const Program program = lower(profile, plan);
  const Timeline measured = read_trace(folder.file("measured.trace.json"), program);
  const auto repredict = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments{"repredict", folder.path()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_program("athanor-sim", arguments);
  };
  const ProgramResult missing = repredict({});
  CHECK(missing.exit_code == 2);
  CHECK_THAT(missing.err, ContainsSubstring("rates.json"));

  const MeasuredRates rates = measure_rates(program, measured);
  write_file_atomically(folder.file("rates.json"), to_json(rates));
  const auto json = nlohmann::json::parse(repredict({"--json"}).out);
  const auto comparison =
      nlohmann::json::parse(run_program("athanor-sim", {"compare", folder.path(), "--json"}).out);
  CHECK(json.at("predicted_step_seconds").get<double>() == Approx(timeline.step_seconds));
  CHECK(json.at("repredicted_step_seconds") ==
        comparison.at("step_seconds").at("predicted_with_combined_rates"));
  CHECK(json.at("rates") == comparison.at("rates"));
  CHECK(json.at("first_step") == rates.first_step);
  CHECK_THAT(repredict({}).out,
             ContainsSubstring("step predicted") && ContainsSubstring("with the rates of steps"));
  // A process that is not its parent's child any more has nobody to answer.
  const ProgramResult alone = repredict({"--end-with", "1"});
  CHECK(alone.exit_code == 1);
  CHECK_THAT(alone.err, ContainsSubstring("has ended"));
}

TEST_CASE_METHOD(RunFixture, "repredict ends with the process that started it") {
  // A step of so many operations that it takes seconds to simulate.
  plan = make_policy_plan("zero3-offload", profile, platform,
                          {.num_gpus = 1, .global_batch = 20000, .micro_batch = 1});
  write_file_atomically(folder.file("plan.json"), to_json(plan));
  MeasuredRates rates;
  rates.first_step = 2;
  rates.last_step = 3;
  write_file_atomically(folder.file("rates.json"), to_json(rates));
  const std::string simulator = ATHANOR_BIN_DIR "/athanor-sim";
  const ProgramResult parent = run_program(
      "/bin/sh", {"-c", simulator + " repredict " + folder.path().string() +
                            " --end-with $$ > /dev/null 2>&1 & sleep 0.3; echo $!; kill -9 $$"});
  const std::string process = parent.out.substr(0, parent.out.find('\n'));
  REQUIRE_FALSE(process.empty());
  CHECK(ends_within(process, 5));
}

}  // namespace athanor::test
