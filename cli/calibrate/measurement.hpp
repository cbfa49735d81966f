// SPDX-License-Identifier: Apache-2.0
// Holds what the verbs that measure share: what they say, and where they write.
#pragma once

#include "cli/common/command_line.hpp"
#include "cli/common/progress_line.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <functional>
#include <string>

namespace athanor::cli {

/// Says on stderr how far a measurement is, and what it found.
class Sayings {
 public:
  explicit Sayings(bool quiet)
      : quiet_(quiet), line_(progress_on_stderr(quiet), ProgressLine::Stages::Said) {}

  OnProgress progress() { return line_.callback(); }
  std::function<void(const std::string&)> remark() {
    return [this](const std::string& what) {
      line_.clear();
      if (!quiet_) fmt::print(stderr, "{}\n", what);
    };
  }
  /// Also where progress is not wanted.
  std::function<void(const std::string&)> warn() {
    return [this](const std::string& what) {
      line_.clear();
      fmt::print(stderr, "note: {}\n", what);
    };
  }
  void end() { line_.clear(); }

 private:
  bool quiet_;
  ProgressLine line_;
};

/// Returns the folder of the file `path`.
[[nodiscard]] std::string folder_of(const std::string& path);

/// Looks for processes that use this host's cores, and says so. Returns what it said.
[[nodiscard]] std::string others_on_host(Sayings& sayings);

/// Adds -o,--output, which is required, and its older name --out, which help does not show.
void add_output(CLI::App& verb, std::string& path, const std::string& help,
                const std::string& type);

}  // namespace athanor::cli
