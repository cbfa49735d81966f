// SPDX-License-Identifier: Apache-2.0
// The operations of the collective lane.
#pragma once

#include "executor/train/rank_context.hpp"
#include "executor/train/step_scalars.hpp"

#include <cstddef>
#include <vector>

namespace athanor {

/// Gathers every rank's shard of a chunk into the whole chunk on every rank. The chunk lies in the
/// operation's cache slot or, for a unit that is replicated, in the unit's own storage.
void gather_chunk(const RankContext& context, const Operation& op);

/// Sums a chunk's gradient over ranks, in the gradient buffer, but for a shard that belongs to this
/// rank alone. When the optimizer state is on the
/// device, also stores this rank's part in the gradient shard.
void reduce_chunk(const RankContext& context, const Operation& op);

/// One buffer of device memory that travels, and where what other ranks send is written.
struct TravellingBytes {
  std::byte* from = nullptr;  ///< an activation reduction sums in it
  std::byte* to = nullptr;
  Bytes bytes = 0;  ///< size with all ranks' parts: of both, or of the larger
};

/// Sends a part of each buffer to every rank. Throws Error where they have not the size that the
/// operation says.
void exchange_rows(const RankContext& context, const Operation& op,
                   const std::vector<TravellingBytes>& travels);

/// Gathers the rows of every rank. Throws as exchange_rows() does.
void gather_rows(const RankContext& context, const Operation& op,
                 const std::vector<TravellingBytes>& travels);

/// Sums what every rank made of the rows of all, and keeps the sum of this rank's. Throws as
/// exchange_rows() does.
void sum_rows_of_ranks(const RankContext& context, const Operation& op,
                       const std::vector<TravellingBytes>& travels);

/// Computes the L2 norm of the whole gradient from every rank's square sums, and the clipping
/// factor of torch.nn.utils.clip_grad_norm_.
void compute_norm(const RankContext& context, const Operation& op, const StepScalars& scalars);

/// Gathers every rank's losses in pinned memory, where the host reads them.
void gather_losses(const RankContext& context, const Operation& op, const StepScalars& scalars);

}  // namespace athanor
