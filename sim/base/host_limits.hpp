// SPDX-License-Identifier: Apache-2.0
// Limits that control groups set on this process: containers, systemd and Slurm use them.
#pragma once

#include "sim/base/quantities.hpp"

#include <optional>
#include <string>

namespace athanor {

struct ControlGroupLimits {
  std::optional<Bytes> memory;  ///< absent: no limit
  std::optional<double> cores;  ///< share of the processors' time, in processors
};

/// Returns the least limits of the process's control groups and of all groups above them, in
/// version 1, version 2 or both. `root` stands before every path, so that a test can bring its own
/// /proc and /sys.
[[nodiscard]] ControlGroupLimits control_group_limits(const std::string& root = "");

/// Returns the least of what `ulimit -v` and `ulimit -d` allow; nothing without a limit.
[[nodiscard]] std::optional<Bytes> address_space_limit();

}  // namespace athanor
