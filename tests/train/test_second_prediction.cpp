// SPDX-License-Identifier: Apache-2.0
// The prediction that a run makes again after its first steps: what it is made of, where it is
// recorded, and that it neither changes nor holds up a run.
#include "sim/base/text_file.hpp"
#include "sim/formats/files.hpp"
#include "sim/formats/trace.hpp"
#include "sim/lowering/lowering.hpp"
#include "tests/train/job_processes.hpp"
#include "tests/train/train_fixture.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace {

using namespace athanor::test;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::WithinRel;
namespace fs = std::filesystem;

constexpr const char* kSimulator = ATHANOR_BIN_DIR "/athanor-sim";
constexpr double kPlans = 0.123;  // seconds of a step, as the plan predicts it

std::string plan_of(const TrainFixture& fixture, int ranks) {
  athanor::Plan plan = fixture.offloaded_plan(ranks, 2);
  plan.prediction.emplace();
  plan.prediction->step_seconds = kPlans;
  return fixture.write_plan("plan", plan);
}

/// Command of a run on a described machine. `more` are further options.
std::vector<std::string> command_of(const TrainFixture& fixture, int ranks, int steps,
                                    const std::string& out, const std::vector<std::string>& more) {
  auto command = fixture.on_platform(fixture.command(plan_of(fixture, ranks), steps, out));
  if (ranks > 1) command.insert(command.end(), {"--gpus", std::to_string(ranks)});
  command.insert(command.end(), more.begin(), more.end());
  return command;
}

nlohmann::json json_in(const std::string& path) {
  return nlohmann::json::parse(athanor::read_text_file(path));
}

std::vector<nlohmann::json> lines_of(const std::string& run) {
  std::vector<nlohmann::json> lines;
  std::ifstream file(run + "/metrics.jsonl");
  for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

/// Copies the run, whose timeline becomes that of its first `steps`, and returns what `athanor
/// compare` says of it.
nlohmann::json compare_first_steps(const std::string& run, int steps) {
  using namespace athanor;
  const std::string copy = run + "-early";
  fs::copy(run, copy, fs::copy_options::recursive);
  const Program program = lower(read_profile(run + "/profile.json"), read_plan(run + "/plan.json"));
  Timeline timeline = read_trace(run + "/measured.trace.json", program);
  std::erase_if(timeline.intervals, [&](const Interval& i) { return i.step >= steps; });
  std::ostringstream trace;
  write_trace(trace, program, timeline);
  write_file_atomically(copy + "/measured.trace.json", trace.str());
  const Finished finished = athanor::test::run({kSimulator, "compare", copy, "--json"});
  INFO(finished.output);
  REQUIRE(finished.exit_code == 0);
  return json_in(copy + "/comparison.json");
}

/// Returns a folder with the trainer alone, and what `simulator` is as a shell script, if any.
std::string folder_with(const TrainFixture& fixture, const std::string& simulator) {
  std::string folder = fixture.file("programs");
  fs::create_directory(folder);
  fs::copy_file(ATHANOR_BIN_DIR "/athanor-train", folder + "/athanor-train");
  if (simulator.empty()) return folder;
  const std::string path = folder + "/athanor-sim";
  athanor::write_file_atomically(path, "#!/bin/sh\n" + simulator + "\n");
  fs::permissions(path, fs::perms::owner_all);
  return folder;
}

/// Runs a job of 8 steps whose trainer finds `simulator` beside it.
Finished run_beside(const TrainFixture& fixture, const std::string& simulator,
                    const std::vector<std::string>& more) {
  auto command = command_of(fixture, 1, 8, fixture.file("run"), more);
  command.front() = folder_with(fixture, simulator) + "/athanor-train";
  return run(command, 60);
}

}  // namespace

TEST_CASE("a run predicts its step again from its first steps, as compare does") {
  for (const int ranks : {1, 2}) {
    INFO(ranks << " ranks");
    const TrainFixture fixture;
    const std::string out = fixture.file("run");
    // Five steps: the timeline at the end still holds the first ones.
    const Finished finished = run(command_of(fixture, ranks, 5, out, {"--repredict", "wait"}));
    INFO(finished.output);
    REQUIRE(finished.exit_code == 0);
    CHECK_THAT(finished.output, ContainsSubstring("step predicted 123 ms; with this machine's "
                                                  "rates "));

    const nlohmann::json record = json_in(out + "/run.json");
    CHECK(record.at("predicted_step_seconds") == kPlans);
    const auto again = record.at("repredicted_step_seconds").get<double>();
    CHECK(again > 0);
    CHECK(record.at("reprediction").at("first_step") == 2);
    CHECK(record.at("reprediction").at("last_step") == 3);
    const std::vector<nlohmann::json> lines = lines_of(out);
    REQUIRE(lines.size() == 5);
    for (std::size_t i = 0; i < lines.size(); ++i) {
      CHECK(lines[i].at("predicted_step_seconds") == kPlans);
      CHECK(lines[i].contains("repredicted_step_seconds") == (i >= 3));
      if (i >= 3) CHECK(lines[i].at("repredicted_step_seconds") == again);
    }

    const nlohmann::json comparison = compare_first_steps(out, 3);
    const nlohmann::json& step = comparison.at("step_seconds");
    // A trace's times are rounded to a part of a microsecond.
    CHECK_THAT(again, WithinRel(step.at("predicted_with_combined_rates").get<double>(), 1e-3));
    CHECK(step.at("repredicted") == again);
    const auto measured = step.at("measured").get<double>();
    CHECK_THAT(step.at("repredicted_relative_error").get<double>(),
               WithinRel(std::abs(again - measured) / measured, 1e-9));
    const athanor::MeasuredRates rates = athanor::read_rates(out + "/rates.json");
    CHECK(comparison.at("rates").size() == rates.rates.size());
  }
}

TEST_CASE("a run has the same losses whether or not it predicts again") {
  const TrainFixture fixture;
  LossCurve before;
  for (const char* how : {"off", "beside", "wait"}) {
    INFO(how);
    const std::string out = fixture.file(how);
    const Finished finished = run(command_of(fixture, 2, 12, out, {"--repredict", how}));
    INFO(finished.output);
    REQUIRE(finished.exit_code == 0);
    const LossCurve curve = loss_curve(out);
    CHECK(curve.losses.size() == 12);
    if (!before.losses.empty()) CHECK(curve == before);
    before = curve;
    CHECK(wait_until_gone(out, 5).empty());
  }
}

TEST_CASE("a run without a second prediction says why") {
  const TrainFixture fixture;
  const auto absent = [&](const std::vector<std::string>& command, const std::string& out) {
    const Finished finished = run(command);
    INFO(finished.output);
    REQUIRE(finished.exit_code == 0);
    const nlohmann::json record = json_in(out + "/run.json");
    CHECK(record.at("repredicted_step_seconds").is_null());
    CHECK_FALSE(fs::exists(out + "/rates.json"));
    return record.at("reprediction").at("absent").get<std::string>();
  };
  const std::string brief = fixture.file("short"), off = fixture.file("off");
  CHECK_THAT(absent(command_of(fixture, 1, 3, brief, {}), brief), ContainsSubstring("no step"));
  CHECK_THAT(absent(command_of(fixture, 1, 8, off, {"--repredict", "off"}), off),
             ContainsSubstring("off"));
  const std::string nowhere = fixture.file("nowhere");
  CHECK_THAT(absent(fixture.command(plan_of(fixture, 1), 8, nowhere), nowhere),
             ContainsSubstring("no platform"));
}

TEST_CASE("a run that goes on predicts again, and its history keeps the prediction before") {
  const TrainFixture fixture;
  const std::string out = fixture.file("run");
  REQUIRE(run(command_of(fixture, 1, 5, out, {"--repredict", "wait"})).exit_code == 0);
  const Finished finished =
      run(command_of(fixture, 1, 10, out, {"--repredict", "wait", "--resume", out}));
  INFO(finished.output);
  REQUIRE(finished.exit_code == 0);
  const nlohmann::json record = json_in(out + "/run.json");
  CHECK(record.at("reprediction").at("first_step") == 7);
  CHECK(record.at("repredicted_step_seconds").get<double>() > 0);
  CHECK(record.at("history").at(0).at("reprediction").at("first_step") == 2);
}

TEST_CASE("a simulator that is missing or fails harms nothing") {
  struct Case {
    std::string simulator, says;
  };
  for (const auto& [simulator, says] :
       {Case{"", "athanor-sim is not installed"}, Case{"echo it broke >&2; exit 1", "it broke"},
        Case{"exit 7", "exit code 7"}, Case{"echo '{}'", "printed no prediction"},
        Case{"kill -9 $$", "signal 9"}}) {
    INFO(simulator);
    const TrainFixture fixture;
    const Finished finished = run_beside(fixture, simulator, {"--repredict", "wait"});
    INFO(finished.output);
    CHECK(finished.exit_code == 0);
    CHECK_THAT(finished.output,
               ContainsSubstring("the step is not predicted again: ") && ContainsSubstring(says));
    CHECK(loss_curve(fixture.file("run")).losses.size() == 8);
    const nlohmann::json record = json_in(fixture.file("run") + "/run.json");
    CHECK_THAT(record.at("reprediction").at("absent").get<std::string>(), ContainsSubstring(says));
  }
}

TEST_CASE("a run does not wait long for a simulator that never ends") {
  const TrainFixture fixture;
  const Finished finished = run_beside(fixture, "exec sleep 1000", {});
  INFO(finished.output);
  CHECK(finished.exit_code == 0);
  CHECK_THAT(finished.output, ContainsSubstring("the run ended before it was made"));
  CHECK(wait_until_gone(fixture.file("run"), 5).empty());
}

TEST_CASE(
    "the simulator has the lowest priority, no files of the run's, and is told whom to end with") {
  // Field 41 of the statistics is the scheduling policy, of which 5 is idle. The process that
  // starts the simulator sets it a moment after the start.
  const std::string simulator =
      "parent=$PPID told=\"$4 $5\" tries=0\n"
      "ls -l /proc/$$/fd | grep -q socket && exit 3\n"
      "policy() { read -r line < /proc/$$/stat; set -- ${line##*) }; echo ${39}; }\n"
      "until [ \"$(policy)\" = 5 ]; do tries=$((tries + 1)); [ $tries = 200 ] && exit 4; done\n"
      "[ \"$told\" = \"--end-with $parent\" ] || exit 5\n"
      "echo '{\"repredicted_step_seconds\": 0.25}'";
  const TrainFixture fixture;
  const Finished finished = run_beside(fixture, simulator, {});
  INFO(finished.output);
  CHECK(finished.exit_code == 0);
  CHECK(json_in(fixture.file("run") + "/run.json").at("repredicted_step_seconds") == 0.25);
}
