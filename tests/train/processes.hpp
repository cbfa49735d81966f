// SPDX-License-Identifier: Apache-2.0
// Starts programs from tests.
#pragma once

#include "tests/support/temporary_folder.hpp"

#include <sys/types.h>

#include <string>
#include <vector>

namespace athanor::test {

struct Finished {
  int exit_code = 0;   ///< 128 + signal where a signal ended it
  std::string output;  ///< stdout and stderr
  double seconds = 0;
};

/// A program that runs while the test does. Its process group is killed on destruction.
class RunningProgram {
 public:
  explicit RunningProgram(const std::vector<std::string>& command);
  ~RunningProgram();
  RunningProgram(const RunningProgram&) = delete;
  RunningProgram& operator=(const RunningProgram&) = delete;

  [[nodiscard]] pid_t process() const noexcept { return process_; }
  /// Sends a signal to the whole group: the program and what it started.
  void signal_all(int signal) const;
  /// Waits for the end; after `limit` seconds kills it and says so in the output.
  [[nodiscard]] Finished wait(double limit);

 private:
  pid_t process_ = -1;
  std::string output_path_;
  double started_ = 0;
  bool finished_ = false;
};

/// Runs a program to its end.
[[nodiscard]] Finished run(const std::vector<std::string>& command, double limit = 300);

/// Returns the words that start `command` on this machine: under `mpirun` for several processes,
/// the command alone for one.
[[nodiscard]] std::vector<std::string> with_processes(int count, std::vector<std::string> command);

/// Returns the number that an environment variable gives, or `otherwise`.
[[nodiscard]] unsigned environment_number(const char* variable, unsigned otherwise);

}  // namespace athanor::test
