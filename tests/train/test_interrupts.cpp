// SPDX-License-Identifier: Apache-2.0
#include "executor/rendezvous/interrupts.hpp"

#include <catch2/catch_test_macros.hpp>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

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

}  // namespace
}  // namespace athanor
