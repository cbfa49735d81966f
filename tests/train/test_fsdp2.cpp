// SPDX-License-Identifier: Apache-2.0
// A run's losses against PyTorch FSDP2's (lab/check_fsdp2.py), on the CPU.
#include "tests/train/run_plans.hpp"
#include "tests/train/train_fixture.hpp"

#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

namespace {

using namespace athanor;
using namespace athanor::test;

constexpr const char* kCheck = ATHANOR_SOURCE_DIR "/lab/check_fsdp2.py";

void require_done(const Finished& finished) {
  INFO(finished.output);
  REQUIRE(finished.exit_code == 0);
}

/// Words after the last that are given for an option count.
std::vector<std::string> with(std::vector<std::string> command,
                              const std::vector<std::string>& more) {
  command.insert(command.end(), more.begin(), more.end());
  return command;
}

/// Returns the command with another --model.
std::vector<std::string> starting_from(const std::string& weights,
                                       std::vector<std::string> command) {
  *(std::find(command.begin(), command.end(), "--model") + 1) = weights;
  return command;
}

/// Reads the parameters' gradients from the lines with "parameter" in them.
double largest(const std::string& key, const std::string& output) {
  double value = -1;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    if (line.find("\"parameter\"") == std::string::npos) continue;
    const auto report = nlohmann::json::parse(line);
    value = std::max(value, report.at(key).get<double>());
  }
  REQUIRE(value >= 0);
  return value;
}

}  // namespace

TEST_CASE("losses agree with FSDP2's from the same weights and tokens") {
  if (std::string(ATHANOR_PYTHON).empty()) SKIP("no Python with torch");
  const TrainFixture fixture;
  const std::string plan = fixture.write_plan("plan", fixture.offloaded_plan(2, 4));
  const std::string fresh = fixture.file("fresh"), out = fixture.file("run");
  // A learning rate of 0 leaves the fresh weights as they are.
  std::vector<std::string> command = fixture.command(plan, 1, fixture.file("unused"));
  command.back() = std::string("0");  // GCC 12 warns of an overlap where characters are assigned
  require_done(run(with(command, {"--nproc", "2", "--export", fresh})));

  command = starting_from(fresh, fixture.command(plan, 12, out));
  require_done(run(with(command, {"--nproc", "2", "--warmup-steps", "3"})));
  require_done(run({ATHANOR_PYTHON, kCheck, out}));
  require_done(run({ATHANOR_PYTHON, "-m", "torch.distributed.run", "--nproc-per-node", "2",
                    "--master-port", "29518", kCheck, out}));

  command = starting_from(fresh, fixture.command(plan, 1, fixture.file("one")));
  require_done(run(with(command, {"--nproc", "2", "--checkpoint-every", "1"})));
  const Finished gradients = run({ATHANOR_PYTHON, kCheck, fixture.file("one"), "--gradients"});
  INFO(gradients.output);
  CHECK(gradients.exit_code == 0);
  for (const char* key : {"error", "fsdp2_error", "difference"}) {
    CHECK(largest(key, gradients.output) < 1e-5);
  }

  const Finished strict = run({ATHANOR_PYTHON, kCheck, out, "--tolerance", "1e-12"});
  CHECK(strict.exit_code == 4);
  const Finished missing = run({ATHANOR_PYTHON, kCheck, fixture.file("none")});
  CHECK(missing.exit_code == 2);
  CHECK(missing.output.find("Give the folder of an `athanor train` run") != std::string::npos);
}
