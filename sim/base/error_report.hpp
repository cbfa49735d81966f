// SPDX-License-Identifier: Apache-2.0
// Reports of errors: a line for people, or a JSON object for the program that called this one.
#pragma once

#include <string>

namespace athanor {

struct ErrorReport {
  std::string program;
  std::string message;
  std::string hint;  ///< the part of the message that is the way out; empty: none is known
  int code = 1;
};

/// Whether ATHANOR_ERRORS is "json": errors are then objects, of which each has a line of its own.
[[nodiscard]] bool errors_are_json();

/// Returns `{"program": .., "message": .., "hint": .., "exit_code": ..}`.
[[nodiscard]] std::string error_json(const ErrorReport& error);

/// Prints "athanor-sim: error: message" or the object to stderr. Returns the exit code.
int report_error(const ErrorReport& error);

}  // namespace athanor
