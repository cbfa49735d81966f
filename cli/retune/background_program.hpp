// SPDX-License-Identifier: Apache-2.0
// A program that works beside a run.
#pragma once

#include "executor/rendezvous/local_socket.hpp"

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace athanor::cli {

enum class Priority {
  Idle,    ///< runs where nobody else wants a core
  Normal,  ///< that of this process
};

/// A program that is started without a copy of this process: pinned memory and CUDA contexts must
/// not be forked. It inherits no files. The destructor ends it.
class BackgroundProgram {
 public:
  /// Starts `program`, which lies beside this one, or else on PATH. Throws Error where it cannot.
  BackgroundProgram(const std::string& program, std::vector<std::string> arguments,
                    Priority priority);
  ~BackgroundProgram();
  BackgroundProgram(const BackgroundProgram&) = delete;
  BackgroundProgram& operator=(const BackgroundProgram&) = delete;

  struct Result {
    std::string output;   ///< text that it printed
    std::string failure;  ///< how it failed, with its words; empty: it did not
  };
  /// Returns the result once it has ended; never waits.
  [[nodiscard]] std::optional<Result> poll();

 private:
  void start(const std::string& path, std::vector<std::string>& words);
  void stop() noexcept;
  void read_all();
  [[nodiscard]] Result result_of(int status) const;

  std::string name_;
  pid_t process_ = -1;  ///< -1: reaped
  Descriptor output_, errors_;
  std::string printed_, complaints_;
};

}  // namespace athanor::cli
