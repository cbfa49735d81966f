// SPDX-License-Identifier: Apache-2.0
// Ranks that a launcher has started on this machine, as the kernel shows them.
#pragma once

#include <sys/types.h>

#include <optional>

namespace athanor {

/// Returns the process of `rank` among those that `launcher` has started, if it is stopped. Nothing
/// where it runs, or where the kernel does not list the launcher's processes.
[[nodiscard]] std::optional<pid_t> stopped_rank(pid_t launcher, int rank);

}  // namespace athanor
