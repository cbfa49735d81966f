// SPDX-License-Identifier: Apache-2.0
// Exceptions of the project. Each program turns them into an exit code in one function, run_main.
#pragma once

#include <functional>
#include <stdexcept>
#include <string>

namespace athanor {

/// Exit codes of every athanor program.
enum ExitCode : int {
  kExitDone = 0,
  kExitFailed = 1,
  kExitBadInput = 2,
  kExitInfeasible = 3,
  kExitOutsideTolerance = 4,
};

/// A failure while running: exit code 1.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The user's input cannot be used: exit code 2. The message reads "where: problem. hint", for
/// example "plan.json:units[3].activation: unknown value 'drop'. Use one of keep, recompute."
class InputError : public Error {
 public:
  InputError(const std::string& where, const std::string& problem, const std::string& hint);
  [[nodiscard]] const std::string& where() const noexcept { return where_; }

 private:
  std::string where_;
};

/// No plan fits the memory at hand: exit code 3. The message names the tier and the nearest change.
class InfeasibleError : public Error {
 public:
  using Error::Error;
};

/// Runs `body` and maps what it throws to an exit code, with the message on stderr.
/// `program` prefixes the message ("athanor-sim: error: ...").
[[nodiscard]] int run_main(const std::string& program, const std::function<int()>& body);

}  // namespace athanor
