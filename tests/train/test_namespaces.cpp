// SPDX-License-Identifier: Apache-2.0
// Ranks on two "machines" that share no folder for their watch: failures are named. Skipped where
// namespaces cannot be made.
#include "tests/train/job_processes.hpp"
#include "tests/train/train_fixture.hpp"
#include "tests/train/two_machines.hpp"

#include <catch2/catch_test_macros.hpp>

#include <chrono>
#include <csignal>

namespace {

using namespace athanor::test;

constexpr double kLimit = 30;

struct Job {
  explicit Job(double delay = 0) : machines(delay) {}

  TwoMachines machines;
  TrainFixture fixture;
  std::string out = fixture.file("run");

  [[nodiscard]] std::vector<std::string> command(int steps) const {
    const std::string plan = fixture.write_plan("plan", fixture.replicated_plan(2, 2));
    return machines.across(fixture.command(plan, steps, out));
  }
};

/// Checks that a job ends in time after `blow` and names rank 1.
template <typename Blow>
void check_named(const Job& job, const std::string& what, const Blow& blow) {
  RunningProgram program(job.command(1000000));
  const std::vector<pid_t> ranks = wait_for_steps(job.out, 60);
  blow(ranks);
  const auto start = std::chrono::steady_clock::now();
  CHECK(wait_until_gone(job.out, kLimit).empty());
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  const Finished finished = program.wait(600);
  INFO(finished.output);
  CHECK(took.count() < kLimit);
  CHECK(finished.exit_code != 0);
  CHECK(finished.output.find("rank 1 (process ") != std::string::npos);
  CHECK(finished.output.find("on machine-b) " + what) != std::string::npos);
}

}  // namespace

TEST_CASE("ranks on two machines train") {
  const Job job;
  if (!job.machines.works()) SKIP("no namespaces here");
  const Finished finished = run(job.command(200), 300);
  INFO(finished.output);
  CHECK(finished.exit_code == 0);
}

TEST_CASE("a link with a delay of 200 ms is named, and ends no job") {
  const Job job(0.2);
  if (!job.machines.works()) SKIP("no namespaces here");
  const auto steps = static_cast<int>(environment_number("ATHANOR_SLOW_STEPS", 20));
  const Finished finished = run(job.command(steps), 100 + 5 * steps);
  INFO(finished.output);
  CHECK(finished.exit_code == 0);
  CHECK(finished.seconds > 0.2 * steps);  // at least one collective a step waited for it
  CHECK(finished.output.find("the link to machine-b is slow: a message takes") !=
        std::string::npos);
}

TEST_CASE("a killed rank of another machine is named") {
  const Job job;
  if (!job.machines.works()) SKIP("no namespaces here");
  check_named(job, "has died", [](const std::vector<pid_t>& ranks) { ::kill(ranks[1], SIGKILL); });
}

TEST_CASE("a stopped rank of another machine is named") {
  const Job job;
  if (!job.machines.works()) SKIP("no namespaces here");
  check_named(job, "has not been heard from",
              [](const std::vector<pid_t>& ranks) { ::kill(ranks[1], SIGSTOP); });
}

TEST_CASE("a cut link ends the job on both sides") {
  const Job job;
  if (!job.machines.works()) SKIP("no namespaces here");
  check_named(job, "has not been heard from",
              [&](const std::vector<pid_t>&) { job.machines.cut(); });
}
