// SPDX-License-Identifier: Apache-2.0
// SIGTERM, SIGINT and SIGHUP to any process of a job save the work and end it; a second ends it at
// once.
#include "tests/train/job_processes.hpp"
#include "tests/train/train_fixture.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <thread>

namespace {

using namespace athanor::test;
namespace fs = std::filesystem;

constexpr int kInterrupted = 5;
constexpr double kLimit = 30;

void sleep_for(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// A job of two ranks under athanor's launcher, or the test's mpirun.
struct Job {
  TrainFixture fixture;
  std::string plan = fixture.write_plan("plan", fixture.offloaded_plan(2, 2));
  std::string out = fixture.file("run");

  [[nodiscard]] std::vector<std::string> command(int steps, std::vector<std::string> more) const {
    auto words = fixture.command(plan, steps, out);
    words.insert(words.end(), {"--gpus", "2", "--schedule", "constant"});
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  [[nodiscard]] bool has_checkpoint(std::int64_t step) const {
    return fs::exists(state_file(step));
  }
  [[nodiscard]] std::string state_file(std::int64_t step) const {
    const std::string digits = std::to_string(step);
    return out + "/checkpoints/step-" + std::string(8 - digits.size(), '0') + digits +
           "/state.json";
  }
};

}  // namespace

TEST_CASE("a signal to any process of the job saves the step, ends all ranks and says so") {
  const auto [victim, signal] = GENERATE(
      std::pair{"launcher", SIGTERM}, std::pair{"launcher", SIGINT}, std::pair{"launcher", SIGHUP},
      std::pair{"mpirun", SIGTERM}, std::pair{"rank 0", SIGHUP}, std::pair{"rank 1", SIGINT});
  INFO(victim << " gets signal " << signal);
  const Job job;
  RunningProgram program(job.command(1000000, {"--checkpoint-every", "1000000"}));
  const std::vector<pid_t> ranks = wait_for_steps(job.out, 120);
  const std::string who = victim;
  const MpiFiles files(job.out, program.process());
  ::kill(who == "launcher" ? program.process()
         : who == "mpirun" ? mpirun_of(job.out)
                           : ranks[who == "rank 0" ? 0 : 1],
         signal);
  const Finished finished = program.wait(kLimit + 60);
  INFO(finished.output);
  CHECK(finished.exit_code == kInterrupted);
  CHECK(contains(finished.output, "interrupted by "));
  CHECK(contains(finished.output, "with --resume " + job.out));
  const std::int64_t last = loss_curve(job.out).steps.back();
  CHECK(job.has_checkpoint(last));
  CHECK(contains(finished.output, "after step " + std::to_string(last) + ";"));
  CHECK(wait_until_gone(job.out, 3).empty());
  CHECK(files.left_behind().empty());

  const Finished resumed = run(job.command(static_cast<int>(last) + 3, {"--resume"}));
  INFO(resumed.output);
  CHECK(resumed.exit_code == 0);
  CHECK(loss_curve(job.out).steps.back() == last + 3);
}

TEST_CASE("one rank alone saves its step, too") {
  const bool may_be_started_again = GENERATE(false, true);
  const TrainFixture fixture;
  const std::string out = fixture.file("run");
  const std::string plan = fixture.write_plan("plan", fixture.replicated_plan(1, 2));
  RunningProgram program(with_words(fixture.command(plan, 1000000, out),
                                    may_be_started_again
                                        ? std::vector<std::string>{"--max-restarts", "1"}
                                        : std::vector<std::string>{}));
  for (int i = 0; i < 1200 && num_steps(out) < 3; ++i) sleep_for(0.05);
  ::kill(program.process(), SIGTERM);
  const Finished finished = program.wait(kLimit);
  INFO(finished.output);
  CHECK(finished.exit_code == kInterrupted);
  CHECK(contains(finished.output, "interrupted by SIGTERM after step "));
}

TEST_CASE("a signal at the start ends the job, and the next command goes on") {
  const double moment = GENERATE(0.01, 0.2, 0.5, 0.9);
  const Job job;
  RunningProgram program(job.command(1000000, {"--checkpoint-every", "1000000"}));
  sleep_for(moment);
  ::kill(program.process(), SIGTERM);
  const Finished finished = program.wait(kLimit + 60);
  INFO(moment << " s after the start:\n" << finished.output);
  // Before main the system ends a program by its own rule, and nothing is begun yet.
  const bool before_main = finished.exit_code == 128 + SIGTERM;
  CHECK((before_main ? finished.output.empty() : contains(finished.output, "interrupted by ")));
  CHECK((before_main || finished.exit_code == kInterrupted));
  CHECK(finished.seconds < kLimit);
  CHECK(wait_until_gone(job.out, 3).empty());
  const bool has_steps = fs::exists(job.out + "/metrics.jsonl");
  const auto steps = static_cast<int>(has_steps ? loss_curve(job.out).steps.back() : 0);
  const Finished next = run(job.command(
      steps + 2, has_steps ? std::vector<std::string>{"--resume"} : std::vector<std::string>{}));
  INFO(next.output);
  CHECK(next.exit_code == 0);
}

TEST_CASE("a second signal ends the job at once") {
  const Job job;
  RunningProgram program(job.command(1000000, {}));
  const std::vector<pid_t> ranks = wait_for_steps(job.out, 120);
  const MpiFiles files(job.out, program.process());
  ::kill(ranks[1], SIGSTOP);  // so that no step ends
  ::kill(program.process(), SIGTERM);
  sleep_for(1.5);
  REQUIRE_FALSE(processes_of(job.out).empty());
  ::kill(program.process(), SIGTERM);
  const auto start = std::chrono::steady_clock::now();
  const Finished finished = program.wait(kLimit);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  INFO(finished.output);
  CHECK(finished.exit_code == 128 + SIGTERM);
  CHECK(took.count() < 5);
  CHECK(wait_until_gone(job.out, 5).empty());
  CHECK(files.left_behind().empty());
}
