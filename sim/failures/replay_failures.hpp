// SPDX-License-Identifier: Apache-2.0
// Replay of a long run with snapshots in memory and checkpoints on disk under given failures: what
// the time went to.
#pragma once

#include "sim/base/quantities.hpp"
#include "sim/failures/placement.hpp"

#include <cstdint>
#include <vector>

namespace athanor {

/// Machines that fail at one moment. Their memory is lost; none: processes alone fail, on any
/// machine.
struct Failure {
  Seconds at = 0;  ///< from the run's start
  std::vector<int> machines;
};

/// A run that trains, takes a snapshot in memory after every `snapshot_interval` of training, and
/// writes one in every snapshots_per_checkpoint of them to disk as well.
///
/// After a failure it goes on from the newest snapshot in memory of which every machine's state has
/// a copy, else from the newest checkpoint on disk. A machine that failed has no copies until the
/// next snapshot is whole. Failures during a restart start it anew.
struct TrainingRun {
  CopyPlacement placement;
  /// Machines from one to the next in the order of the placement; it divides their number. With as
  /// many as fail together, they hold no copies of each other.
  int jump = 1;
  bool keeps_memory = true;       ///< false: checkpoints on disk are all there is
  Seconds snapshot_interval = 0;  ///< positive
  Seconds snapshot_blocking = 0;  ///< stop of training for each snapshot
  Seconds snapshot_latency = 0;   ///< from the end of the stop until the snapshot can be used
  std::int64_t snapshots_per_checkpoint = 1;
  Seconds checkpoint_blocking = 0, checkpoint_latency = 0;  ///< likewise, after the snapshot's
  Seconds restart = 0;           ///< from the failure until the state is read
  Seconds memory_retrieval = 0;  ///< reading it from memory
  Seconds disk_retrieval = 0;    ///< reading it from disk

  /// Throws InputError that names `where` for a placement or a jump that cannot be.
  void validate(const std::string& where) const;
};

/// Division of a run's time. The causes and the training add up to the whole.
struct TimeUse {
  Seconds training = 0;     ///< that the state at the end holds
  Seconds snapshots = 0;    ///< stops for snapshots that it rests on
  Seconds checkpoints = 0;  ///< stops for checkpoints likewise
  Seconds lost = 0;         ///< training and stops that failures undid
  Seconds restarts = 0;
  Seconds retrievals = 0;
  std::int64_t num_failures = 0;
  std::int64_t num_from_disk = 0;  ///< failures that went back to the disk
};

/// Replays the first `horizon` seconds. `failures` are in order of time.
[[nodiscard]] TimeUse replay_failures(const TrainingRun& run, const std::vector<Failure>& failures,
                                      Seconds horizon);

}  // namespace athanor
