// SPDX-License-Identifier: Apache-2.0
// A checkpoint that is written on a thread of its own while steps run.
#pragma once

#include "executor/checkpoint/checkpoint_writer.hpp"
#include "sim/base/quantities.hpp"

#include <future>
#include <stop_token>

namespace athanor {

/// One rank's share of it. The ranks' threads do not exchange messages, because the connections are
/// the steps': a rank whose file is durable says so in a file beside it, and rank 0 completes the
/// checkpoint when all have.
class BackgroundCheckpoint {
 public:
  /// Starts to write. Until it is done, the ranges must read the same values, on any thread.
  /// begin_checkpoint() was called.
  explicit BackgroundCheckpoint(CheckpointPart part);
  /// Gives up what is not done. It then counts for nobody.
  ~BackgroundCheckpoint();
  BackgroundCheckpoint(const BackgroundCheckpoint&) = delete;
  BackgroundCheckpoint& operator=(const BackgroundCheckpoint&) = delete;

  /// Whether wait() would not wait.
  [[nodiscard]] bool is_done() const;
  /// Waits until this rank's file is durable; on rank 0, until the checkpoint is complete. Returns
  /// how long that took from the start, or throws what kept it from that. Call it once.
  [[nodiscard]] Seconds wait();

 private:
  std::stop_source stop_;
  std::future<Seconds> result_;
};

}  // namespace athanor
