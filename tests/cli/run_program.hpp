// SPDX-License-Identifier: Apache-2.0
// Runs a program as a user does, and keeps its output.
#pragma once

#include "tests/support/temporary_folder.hpp"

#include <string>
#include <vector>

namespace athanor::test {

struct ProgramResult {
  int exit_code = -1;  ///< 128 + signal if it was killed
  std::string out, err;
  long peak_kib = 0;  ///< the most memory that it had
};

/// Runs `program` (looked up in the build's bin folder unless absolute) with stdin closed. A
/// program that runs for longer than `limit_seconds` is ended by SIGALRM; 0: no limit.
[[nodiscard]] ProgramResult run_program(const std::string& program,
                                        const std::vector<std::string>& arguments,
                                        unsigned limit_seconds = 0);

}  // namespace athanor::test
