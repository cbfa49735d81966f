// SPDX-License-Identifier: Apache-2.0
// Writes checkpoints so that a reader, at any moment, finds whole ones only.
#pragma once

#include "executor/checkpoint/checkpoint_state.hpp"
#include "executor/train/training_state.hpp"
#include "sim/model/architecture.hpp"

#include <cstdint>
#include <functional>
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

/// Returns the bytes that a checkpoint takes, to some percent.
[[nodiscard]] Bytes checkpoint_bytes(const Architecture& architecture);

}  // namespace athanor
