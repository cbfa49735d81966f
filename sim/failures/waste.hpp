// SPDX-License-Identifier: Apache-2.0
// Time that checkpoints and failures cost, in closed form, and the intervals that cost least.
#pragma once

#include "sim/base/quantities.hpp"

#include <cstdint>

namespace athanor {

/// Bytes of training state that a checkpoint holds for each parameter: master, and Adam's moments.
inline constexpr Bytes kCheckpointBytesPerParameter = 12;
inline constexpr Seconds kDay = 86400;

/// Seconds to write or read the state of a job through a store that all machines share.
[[nodiscard]] Seconds store_seconds(double state_bytes, double store_bytes_per_second);

/// Seconds in which every machine sends its part of the state to the memory of the num_copies - 1
/// machines that hold it as well. `bytes_per_second` is what a machine's network reaches.
[[nodiscard]] Seconds peer_seconds(double state_bytes, int num_machines, int num_copies,
                                   double bytes_per_second);

/// Checkpoints of one kind, and what a failure costs that goes back to one.
struct CheckpointTimes {
  Seconds interval = 0;  ///< training between the starts of two checkpoints
  Seconds blocking = 0;  ///< stop of training for each checkpoint
  Seconds write = 0;     ///< from a checkpoint's start until it can be used
  Seconds retrieve = 0;  ///< back from where the checkpoint is
  Seconds restart = 0;   ///< detection, replacement, start of processes and the first step
};

/// Mean time that one failure wastes: GEMINI's t_ckpt + 1 / (2 f) + t_rtvl (SOSP 2023), and the
/// restart. Failures come alike at any time, and one at a time.
[[nodiscard]] Seconds wasted_per_failure(const CheckpointTimes& times);

/// Share of time that trains, to first order in the number of failures; never less than 0.
[[nodiscard]] double effective_ratio(const CheckpointTimes& times, double failures_per_second);

/// Mean time that `work` seconds of training and the checkpoint after them take, if each failure
/// goes back to their start and failures may hit checkpoints and restarts as well: exact where
/// failures are a Poisson process (Daly, FGCS 2006). `restart` includes the retrieval.
[[nodiscard]] Seconds expected_segment_seconds(Seconds work, Seconds checkpoint, Seconds restart,
                                               double failures_per_second);

/// Training between two checkpoints that wastes least, by Young's first-order formula (CACM 1974).
[[nodiscard]] Seconds young_interval(Seconds checkpoint, double failures_per_second);

/// Training between two checkpoints by Daly's higher-order formula.
[[nodiscard]] Seconds daly_interval(Seconds checkpoint, double failures_per_second);

/// Training between two checkpoints by Saxena's formula, which counts restarts. The formula's
/// own interval includes the checkpoint itself.
[[nodiscard]] Seconds saxena_interval(Seconds checkpoint, Seconds restart,
                                      double failures_per_second);

}  // namespace athanor
