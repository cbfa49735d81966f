// SPDX-License-Identifier: Apache-2.0
// A rank that dies, is stopped, hangs or fails does not leave the others waiting.
#include "tests/train/job_processes.hpp"
#include "tests/train/train_fixture.hpp"

#include <catch2/catch_test_macros.hpp>

#include <chrono>
#include <csignal>
#include <thread>

namespace {

using namespace athanor::test;

constexpr double kLimit = 30;

/// Sends `signal` to rank 1 of a job of two and returns how it ended, timed from the signal on.
Finished end_of_job_after(int signal) {
  const TrainFixture fixture;
  const std::string plan = fixture.write_plan("plan", fixture.offloaded_plan(2, 2));
  const std::string out = fixture.file("run");
  RunningProgram job(with_processes(2, fixture.command(plan, 1000000, out)));
  const std::vector<pid_t> ranks = wait_for_steps(out, 60);
  const auto start = std::chrono::steady_clock::now();
  ::kill(ranks[1], signal);
  Finished finished = job.wait(600);
  finished.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return finished;
}

void check_named(const Finished& finished) {
  INFO(finished.output);
  CHECK(finished.exit_code != 0);
  CHECK(finished.seconds < kLimit);
  CHECK(finished.output.find("rank 1") != std::string::npos);
}

Finished run_worker(const std::string& mode) {
  return run(with_processes(2, {ATHANOR_FAILURE_WORKER, mode}), 300);
}

}  // namespace

TEST_CASE("a killed rank is named") { check_named(end_of_job_after(SIGKILL)); }

TEST_CASE("a stopped rank is named") {
  const Finished finished = end_of_job_after(SIGSTOP);
  check_named(finished);
  CHECK(finished.output.find("has not been heard from") != std::string::npos);
}

TEST_CASE("a failing rank is named, with operation and reason") {
  const Finished finished = run_worker("throw");
  check_named(finished);
  CHECK(finished.output.find("rank 1 failed in 'forward") != std::string::npos);
  CHECK(finished.output.find("no more data") != std::string::npos);
  CHECK(finished.output.find("Exception raised from") == std::string::npos);  // LibTorch's frames
}

TEST_CASE("a hanging rank is named") {
  const Finished finished = run_worker("hang");
  check_named(finished);
  CHECK(finished.output.find("keeps the others waiting") != std::string::npos);
  CHECK(finished.output.find("it is in 'forward") != std::string::npos);
}
