// SPDX-License-Identifier: Apache-2.0
// How far a process is with reserving its memory, which takes minutes for hundreds of GiB.
#pragma once

#include "cli/common/progress_line.hpp"

#include <functional>
#include <thread>

namespace athanor::cli {

/// Returns the bytes of this process that are in memory; 0 where the kernel does not say.
[[nodiscard]] Bytes resident_bytes();

/// Shows how much of `expected` bytes have come into memory since it was made. A thread of its own
/// watches, because whoever reserves memory is in a system call for most of the time.
class MemoryProgress {
 public:
  explicit MemoryProgress(Bytes expected, ProgressTarget target = progress_on_stderr(),
                          const std::function<Bytes()>& resident = resident_bytes);

 private:
  std::jthread watch_;  ///< ends with this object
};

}  // namespace athanor::cli
