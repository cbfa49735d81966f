// SPDX-License-Identifier: Apache-2.0
// Writes checkpoints so that a reader, at any moment, finds whole ones only.
#pragma once

#include "executor/checkpoint/checkpoint_state.hpp"
#include "executor/train/training_state.hpp"
#include "sim/model/architecture.hpp"

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

namespace athanor {

/// Exchanges a number among the ranks: returns every rank's value, [rank], once all have called.
using ExchangeValues = std::function<std::vector<std::uint64_t>(std::uint64_t value)>;

/// Writes this rank's part of the checkpoint of `state.step` into `folder` (RUN/checkpoints). Rank
/// 0 completes it and deletes all but the `keep_last` newest of the run. Every rank calls it.
/// `state` has everything but `files`. Throws Error, with the file's name, on a full disk; older
/// checkpoints stay. Returns the checkpoint's folder.
std::string write_checkpoint(const std::string& folder, CheckpointState state,
                             const Architecture& architecture,
                             const std::vector<StateRange>& ranges, int rank, int keep_last,
                             const ExchangeValues& exchange);

/// Part of a checkpoint that one rank writes.
struct CheckpointPart {
  std::string folder;     ///< RUN/checkpoints
  CheckpointState state;  ///< everything but `files`
  const Architecture* architecture = nullptr;
  std::vector<StateRange> ranges;
  int rank = 0;
  int keep_last = 1;
};

// The parts of write_checkpoint(), between which ranks must meet.

/// Makes the hidden folder that the ranks write into, on rank 0. No other checkpoint is under way.
void begin_checkpoint(const std::string& folder, std::int64_t step);
/// Writes a rank's file, durably, and returns its checksum. Leaves nothing of a file that it cannot
/// write. Throws Error, also once a `stop` is requested.
[[nodiscard]] std::uint64_t write_part(const CheckpointPart& part,
                                       const std::stop_token& stop = {});
/// Makes the files of all ranks a checkpoint, on rank 0, and deletes older ones.
void complete_checkpoint(const CheckpointPart& part, const std::vector<std::uint64_t>& checksums);
/// Path of the checkpoint, and of the hidden folder until it is complete.
[[nodiscard]] std::string checkpoint_path(const std::string& folder, std::int64_t step);
[[nodiscard]] std::string partial_path(const std::string& folder, std::int64_t step);

/// Returns the bytes that a checkpoint takes, to some percent.
[[nodiscard]] Bytes checkpoint_bytes(const Architecture& architecture);

}  // namespace athanor
