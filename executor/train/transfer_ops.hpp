// SPDX-License-Identifier: Apache-2.0
// The copies between host and device.
#pragma once

#include "executor/train/compute_ops.hpp"
#include "executor/train/rank_context.hpp"

namespace athanor {

/// Copies this rank's shard of a host chunk, after `steps` steps, to its place in the cache slot.
void fetch_shard(const RankContext& context, const Operation& op, std::int64_t steps);

/// Copies a unit's output to its place in pinned memory. Throws Error when it is larger than in the
/// profile.
void copy_output_to_host(const RankContext& context, const Operation& op,
                         const DeviceOutput& output);
/// Copies a unit's output from pinned memory back to the device.
void copy_output_to_device(const RankContext& context, const Operation& op,
                           const DeviceOutput& output);

/// Copies parameters on the host, after `steps` steps, to their home on the device.
void copy_parameters_to_device(const RankContext& context, const Operation& op, std::int64_t steps);

/// Copies optimizer state and gradient on the host to the stream buffer of `op`.
void copy_state_to_device(const RankContext& context, const Operation& op);

/// Copies optimizer state and new parameters in the stream buffer of `op` to the host.
void copy_state_to_host(const RankContext& context, const Operation& op);

/// Copies parameters and optimizer state on the device, after `steps` steps, to their place in host
/// memory.
void keep_state(const RankContext& context, const Operation& op, std::int64_t steps);

/// Adds this rank's part of the reduced gradient to an accumulator (op.accumulate), or writes it
/// there.
void add_gradient(const RankContext& context, const Operation& op);

/// Copies the sum in an accumulator to the gradient shard on the host, or back.
void copy_gradient_sum(const RankContext& context, const Operation& op);

/// Stores this rank's part of the reduced gradient in the gradient shard, on the device or on the
/// host, or adds it there (op.accumulate).
void store_gradient(const RankContext& context, const Operation& op);

}  // namespace athanor
