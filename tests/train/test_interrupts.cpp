// SPDX-License-Identifier: Apache-2.0
#include "executor/rendezvous/interrupts.hpp"
#include "executor/watch/job_watch.hpp"
#include "executor/watch/rank_links.hpp"

#include <catch2/catch_test_macros.hpp>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <string>
#include <thread>

namespace athanor {
namespace {

constexpr int kReached = 9;

/// Runs `body` in a process that catches signals, and returns its exit code.
template <typename Body>
int exit_code_of(const Body& body) {
  const pid_t process = ::fork();
  if (process == 0) {
    catch_interrupts();
    body();
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(process, &status, 0) == process);
  REQUIRE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

TEST_CASE("a signal before training ends the process at once") {
  CHECK(exit_code_of([] {
          ::raise(SIGTERM);
          ::_exit(kReached);
        }) == kExitInterrupted);
}

TEST_CASE("a held signal waits") {
  CHECK(exit_code_of([] {
          const HeldInterrupts held;
          ::raise(SIGTERM);
          ::_exit(kReached);
        }) == kReached);
}

TEST_CASE("a signal that was held ends the process afterwards, and no earlier") {
  CHECK(exit_code_of([] {
          {
            const HeldInterrupts held;
            const HeldInterrupts inner;
            ::raise(SIGHUP);
          }
          ::_exit(kReached);
        }) == kExitInterrupted);
}

RankInfo rank_of_two(int rank) {
  RankInfo info;
  info.rank = rank;
  info.world_size = info.local_size = 2;
  return info;
}

struct Ended {
  int exit_code = -1;
  std::string output;
};

/// Runs the watch of rank 0 of two, sends it `message` from rank 1, and waits until it ends.
Ended end_of_rank_0(const RankMessage& message) {
  // So the ranks of this job find each other, as under torchrun.
  ::setenv("TORCHELASTIC_RUN_ID", ("interrupts-" + std::to_string(::getpid())).c_str(), 1);
  std::array<int, 2> ends{};
  REQUIRE(::pipe(ends.data()) == 0);
  const pid_t process = ::fork();
  if (process == 0) {
    ::dup2(ends[1], STDERR_FILENO);
    JobWatch watch(rank_of_two(0), "rank-0");
    std::this_thread::sleep_for(std::chrono::seconds(30));
    ::_exit(kReached);
  }
  ::close(ends[1]);
  RankLinks links(rank_of_two(1), key_of_local_job(rank_of_two(1)));
  for (int i = 0; i < 600 && !links.is_linked(); ++i) {
    links.connect(message_of(MessageKind::Status, 1), 0.05 * i);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  REQUIRE(links.is_linked());
  links.send(message);
  Ended ended;
  int status = 0;
  REQUIRE(::waitpid(process, &status, 0) == process);
  ended.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  std::array<char, 1000> text{};
  const ssize_t size = ::read(ends[0], text.data(), text.size());
  if (size > 0) ended.output.assign(text.data(), static_cast<std::size_t>(size));
  ::close(ends[0]);
  return ended;
}

TEST_CASE("rank 0 names the signal that another rank has heard of first, and only once") {
  RankMessage message = message_of(MessageKind::Interrupted, 1);
  message.exit_code = SIGHUP;
  const Ended unnamed = end_of_rank_0(message);
  CHECK(unnamed.exit_code == kExitInterrupted);
  CHECK(unnamed.output ==
        "rank-0: interrupted by SIGHUP before training; the same command starts it again\n");

  message.exit_code = 0;
  const Ended named = end_of_rank_0(message);
  CHECK(named.exit_code == kExitInterrupted);
  CHECK(named.output.empty());
}

}  // namespace
}  // namespace athanor
