// SPDX-License-Identifier: Apache-2.0
// The operations of the collective lane.
#pragma once

#include "executor/train/rank_context.hpp"
#include "executor/train/step_scalars.hpp"

namespace athanor {

/// Every rank's shard of a chunk -> the whole chunk on every rank, in the slot or, where the unit
/// is whole on every rank, in its storage.
void gather_chunk(const RankContext& context, const Operation& op);

/// Sums a chunk's gradient over ranks, in the gradient buffer; then, where the optimizer is on the
/// device, stores own part in the gradient shard.
void reduce_chunk(const RankContext& context, const Operation& op);

/// L2 norm of the whole gradient from every rank's square sums, and the clipping factor, computed
/// as torch.nn.utils.clip_grad_norm_ does.
void compute_norm(const RankContext& context, const Operation& op, const StepScalars& scalars);

/// Every rank's losses, to where the host reads them.
void gather_losses(const RankContext& context, const Operation& op, const StepScalars& scalars);

}  // namespace athanor
