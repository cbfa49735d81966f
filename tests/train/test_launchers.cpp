// SPDX-License-Identifier: Apache-2.0
// A launcher that is killed or stopped leaves neither processes nor files of MPI behind.
#include "executor/rendezvous/mpi_cleaner.hpp"
#include "executor/rendezvous/mpi_leftovers.hpp"
#include "tests/train/job_processes.hpp"
#include "tests/train/train_fixture.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

namespace {

using namespace athanor;
using namespace athanor::test;

constexpr double kLimit = 30;

/// Starts a process that has nobody but its cleaner, and is stopped. It writes errors to `errors`.
pid_t start_stopped_rank(pid_t launcher, const MpiLeftovers& leftovers, int errors) {
  const pid_t process = ::fork();
  if (process != 0) return process;
  ::dup2(errors, STDERR_FILENO);
  ::setenv("OMPI_COMM_WORLD_RANK", "3", 1);
  start_cleaner(launcher, leftovers);
  ::raise(SIGSTOP);
  ::_exit(0);
}

pid_t start_sleeping() {
  const pid_t process = ::fork();
  if (process == 0) ::execlp("sleep", "sleep", "120", nullptr);
  return process;
}

std::string read_to_end(int pipe) {
  std::string text;
  std::array<char, 256> part{};
  for (ssize_t bytes = 0; (bytes = ::read(pipe, part.data(), part.size())) > 0;) {
    text.append(part.data(), static_cast<std::size_t>(bytes));
  }
  return text;
}

}  // namespace

TEST_CASE("a killed or stopped launcher leaves nothing behind") {
  const bool own_launcher = GENERATE(true, false);
  const std::string victim = GENERATE("launcher", "mpirun");
  const int signal = GENERATE(SIGKILL, SIGSTOP);
  if (!own_launcher && victim == "launcher") return;  // it is mpirun
  INFO(victim << " gets signal " << signal << (own_launcher ? "" : ", started by mpirun"));
  const TrainFixture fixture;
  const std::string out = fixture.file("run");
  auto command =
      fixture.command(fixture.write_plan("plan", fixture.offloaded_plan(2, 2)), 1000000, out);
  if (own_launcher) {
    command.insert(command.end(), {"--gpus", "2"});
  } else {
    command = with_processes(2, std::move(command));
  }
  RunningProgram program(command);
  const std::vector<pid_t> ranks = wait_for_steps(out, 120);
  const MpiFiles files(out, program.process());
  REQUIRE_FALSE(files.left().empty());
  ::kill(victim == "launcher" || !own_launcher ? program.process() : mpirun_of(out), signal);
  CHECK(wait_until_gone(out, kLimit).empty());
  CHECK(files.left_behind().empty());
  const Finished finished = program.wait(kLimit + 600);
  INFO(finished.output);
  CHECK(finished.exit_code != 0);
  // Words of ranks under another launcher go through it, and it is stopped.
  if (signal == SIGSTOP && own_launcher) {
    CHECK((finished.output.find("has not run for") != std::string::npos ||
           finished.output.find("has been stopped for") != std::string::npos));
  }
}

TEST_CASE("a rank that is stopped before it meets the others is named") {
  const TrainFixture fixture;
  const std::string out = fixture.file("run");
  auto command =
      fixture.command(fixture.write_plan("plan", fixture.offloaded_plan(2, 2)), 1000000, out);
  command.insert(command.end(), {"--gpus", "2"});
  RunningProgram program(command);
  std::vector<pid_t> ranks;
  while (ranks.empty()) ranks = ranks_of(out, 2);
  ::kill(ranks[1], SIGSTOP);
  const auto start = std::chrono::steady_clock::now();
  const Finished finished = program.wait(120);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  INFO(finished.output);
  CHECK(finished.exit_code == 1);
  CHECK(finished.output.find("rank 1 ") != std::string::npos);
  CHECK(took.count() < kLimit);
  CHECK(wait_until_gone(out, 3).empty());
}

TEST_CASE("a rank 0 that is stopped before it comes is named, also where nothing is left to do") {
  const TrainFixture fixture;
  const std::string out = fixture.file("run");
  const auto command =
      fixture.command(fixture.write_plan("plan", fixture.offloaded_plan(2, 2)), /*steps=*/3, out);
  output_of(with_words(command, {"--gpus", "2"}));
  RunningProgram program(with_processes(2, with_words(command, {"--resume"})));
  std::vector<pid_t> ranks;
  while (ranks.empty()) ranks = ranks_of(out, 2);
  ::kill(ranks[0], SIGSTOP);
  const auto start = std::chrono::steady_clock::now();
  const Finished finished = program.wait(120);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  INFO(finished.output);
  CHECK(finished.exit_code != 0);
  CHECK(finished.output.find("rank 0 ") != std::string::npos);
  CHECK(took.count() < kLimit);
  CHECK(wait_until_gone(out, 3).empty());
}

TEST_CASE("a rank that is done before rank 0 comes ends well with it") {
  const TrainFixture fixture;
  const std::string out = fixture.file("run");
  const auto command =
      fixture.command(fixture.write_plan("plan", fixture.offloaded_plan(2, 2)), /*steps=*/3, out);
  output_of(with_words(command, {"--gpus", "2"}));
  for (int round = 0; round < 4; ++round) {
    RunningProgram program(with_processes(2, with_words(command, {"--resume"})));
    std::vector<pid_t> ranks;
    while (ranks.empty()) ranks = ranks_of(out, 2);
    ::kill(ranks[0], SIGSTOP);
    std::this_thread::sleep_for(std::chrono::milliseconds(1000 + 250 * round));
    ::kill(ranks[0], SIGCONT);
    const Finished finished = program.wait(120);
    INFO(finished.output);
    CHECK(finished.exit_code == 0);
  }
}

TEST_CASE("ranks whose launcher dies before they begin do not wait for each other") {
  const TrainFixture fixture;
  const std::string out = fixture.file("run");
  auto command =
      fixture.command(fixture.write_plan("plan", fixture.offloaded_plan(2, 2)), /*steps=*/3, out);
  output_of(with_words(command, {"--gpus", "2"}));
  command.emplace_back("--resume");
  std::vector<std::string> orphaned{"sh", "-c", "kill -9 $PPID; sleep 0.5; exec \"$@\"", "sh"};
  orphaned.insert(orphaned.end(), command.begin(), command.end());
  RunningProgram program(with_processes(2, orphaned));
  CHECK(program.wait(60).exit_code != 0);
  CHECK(wait_until_gone(out, 5).empty());
}

TEST_CASE("a stopped rank that no other rank is left to name is named by its cleaner") {
  const MpiLeftovers leftovers = make_session_folder();
  std::array<int, 2> errors{};
  REQUIRE(::pipe2(errors.data(), O_CLOEXEC) == 0);
  const pid_t launcher = start_sleeping();
  const pid_t rank = start_stopped_rank(launcher, leftovers, errors[1]);
  ::close(errors[1]);
  const std::string text = read_to_end(errors[0]);
  ::close(errors[0]);
  CHECK(text == "athanor: rank 3 (process " + std::to_string(rank) +
                    ") has been stopped for 25 s, and no other rank is left to end it; it is "
                    "killed\n");
  int status = 0;
  REQUIRE(::waitpid(rank, &status, 0) == rank);
  CHECK(WTERMSIG(status) == SIGKILL);
  // An mpirun that served one program alone would be ended only when it stays behind.
  CHECK(::waitpid(launcher, &status, WNOHANG) == 0);
  ::kill(launcher, SIGKILL);
  ::waitpid(launcher, &status, 0);
  for (int i = 0; i < 100 && std::filesystem::exists(leftovers.folder); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  CHECK_FALSE(std::filesystem::exists(leftovers.folder));
}

TEST_CASE("a session folder that nobody holds goes with the next start, others stay") {
  namespace fs = std::filesystem;
  const std::string folder = make_session_folder().folder;
  std::ofstream(folder + "/segment") << "left";
  const auto age = [&](int minutes) {
    fs::last_write_time(folder, fs::file_time_type::clock::now() - std::chrono::minutes(minutes));
  };
  age(0);
  remove_abandoned_session_folders();
  CHECK(fs::exists(folder));  // its launcher may be about to hold it
  age(5);
  {
    const Descriptor held = hold_session_folder(folder);
    remove_abandoned_session_folders();
    CHECK(fs::exists(folder));
  }
  remove_abandoned_session_folders();
  CHECK_FALSE(fs::exists(folder));
}
