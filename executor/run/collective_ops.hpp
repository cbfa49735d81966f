// SPDX-License-Identifier: Apache-2.0
// The operations of the collective lane.
#pragma once

#include "executor/run/rank_context.hpp"
#include "executor/run/step_state.hpp"

namespace athanor {

/// Every rank's shard of a chunk -> the whole chunk on every rank, in the slot or, where the unit
/// is whole on every rank, in its storage.
void gather_chunk(const RankContext& context, const Operation& op);

/// Sums a chunk's gradient over ranks, in the gradient buffer; then, where the optimizer is on the
/// device, stores own part in the gradient shard.
void reduce_chunk(const RankContext& context, const Operation& op);

/// L2 norm of the whole gradient from every rank's square sums, and the clipping factor, computed
/// as torch.nn.utils.clip_grad_norm_ does.
void compute_norm(const RankContext& context, StepState& state);

/// Mean loss of the global batch. Summed in the order of the samples, so that a global batch has
/// one loss however it is split into ranks and micro-batches.
void compute_mean_loss(const RankContext& context, StepState& state);

}  // namespace athanor
