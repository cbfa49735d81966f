// SPDX-License-Identifier: Apache-2.0
// Runs a program as a user does and keeps what it said.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace athanor::test {

/// A folder that is gone afterwards.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  [[nodiscard]] std::string file(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

struct ProgramResult {
  int exit_code = -1;  ///< 128 + signal when it was killed
  std::string out, err;
};

/// Runs `program` (looked up in the build's bin folder unless absolute) with stdin closed.
[[nodiscard]] ProgramResult run_program(const std::string& program,
                                        const std::vector<std::string>& arguments);

}  // namespace athanor::test
