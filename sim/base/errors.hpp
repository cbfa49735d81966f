// SPDX-License-Identifier: Apache-2.0
// Exceptions of the project. Each program turns them into an exit code in one function, run_main.
#pragma once

#include <functional>
#include <stdexcept>
#include <string>
#include <utility>

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
  explicit Error(const std::string& message, std::string hint = "")
      : std::runtime_error(message), hint_(std::move(hint)) {}
  /// Returns the way out, which the message ends with; empty where none is known.
  [[nodiscard]] const std::string& hint() const noexcept { return hint_; }

 private:
  std::string hint_;
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

/// No plan fits the memory at hand: exit code 3. The message reads "problem. hint": the problem
/// names the tier, the hint the nearest change.
class InfeasibleError : public Error {
 public:
  InfeasibleError(const std::string& problem, const std::string& hint);
};

/// Runs `body` and maps what it throws to an exit code, with the message on stderr (see
/// error_report.hpp). `program` prefixes the message ("athanor-sim: error: ...").
[[nodiscard]] int run_main(const std::string& program, const std::function<int()>& body);

}  // namespace athanor
