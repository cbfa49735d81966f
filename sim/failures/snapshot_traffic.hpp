// SPDX-License-Identifier: Apache-2.0
// Delay of training by snapshots in memory: their traffic that the idle time of links does not
// hide.
#pragma once

#include "sim/base/quantities.hpp"

#include <cstdint>

namespace athanor {

/// Traffic of one snapshot on one link, and the time in which a step leaves that link idle.
struct LinkTraffic {
  Seconds traffic = 0;
  Seconds idle = 0;  ///< at most the step
};

/// Snapshots of a training step: down from the device and over the network to peers, in chunks
/// that flow through both at once.
struct SnapshotTraffic {
  Seconds step = 0;
  LinkTraffic copy;  ///< from the device to the host
  LinkTraffic send;  ///< from the machine to its peers

  /// Time by which a snapshot of every `every` steps delays training: what the busier link has no
  /// idle time for.
  [[nodiscard]] Seconds blocking(std::int64_t every) const noexcept;
  /// Time from a snapshot's start until it is whole, if its chunks are spread over the idle time;
  /// without blocking() at most `every` steps.
  [[nodiscard]] Seconds spread(std::int64_t every) const noexcept;
};

/// Number of steps between two snapshots that wastes least time, if a failure that memory recovers
/// wastes half of them and spread(). At most `most`.
[[nodiscard]] std::int64_t best_snapshot_steps(const SnapshotTraffic& traffic,
                                               double failures_per_second, std::int64_t most);

}  // namespace athanor
