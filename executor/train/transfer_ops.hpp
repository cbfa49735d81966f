// SPDX-License-Identifier: Apache-2.0
// The copies between host and device.
#pragma once

#include "executor/train/compute_ops.hpp"
#include "executor/train/rank_context.hpp"

namespace athanor {

/// Own shard of a host chunk -> its place in the cache slot.
void fetch_shard(const RankContext& context, const Operation& op);

/// Own part of the reduced gradient, in the gradient buffer -> the host's gradient shard.
void copy_gradient_to_host(const RankContext& context, const Operation& op);

/// A unit's output -> its place in pinned memory, and back.
void copy_output_to_host(const RankContext& context, const Operation& op,
                         const DeviceOutput& output);
void copy_output_to_device(const RankContext& context, const Operation& op,
                           const DeviceOutput& output);

/// Updated parameters on the host -> their home on the device.
void copy_parameters_to_device(const RankContext& context, const Operation& op);

/// State and gradient on the host -> the stream buffer of `op`.
void copy_state_to_device(const RankContext& context, const Operation& op);

/// State and new parameters in the stream buffer of `op` -> host.
void copy_state_to_host(const RankContext& context, const Operation& op);

/// Writes own part of the reduced gradient into the gradient shard, or adds it (op.accumulate).
void store_gradient(const RankContext& context, const Operation& op);

}  // namespace athanor
