// SPDX-License-Identifier: Apache-2.0
#include "executor/travel/token_slots.hpp"

#include "executor/experts/expert_operators.hpp"

#include <tuple>

namespace athanor {
namespace {

using torch::Tensor;

/// Returns where each of consecutive parts begins, from where they end, along the last dimension.
Tensor begins_of(const Tensor& ends) {
  const std::int64_t parts = ends.size(-1);
  return torch::cat({torch::zeros_like(ends.narrow(-1, 0, 1)), ends.narrow(-1, 0, parts - 1)}, -1);
}

}  // namespace

TokenSlots token_slots(const Routing& routing, const ExpertShare& share) {
  const at::NoGradGuard no_gradient;
  const std::int64_t rows = routing.pairs.size(0);
  const Tensor expert_ends = routing.ends.view({share.ranks, share.count});
  const Tensor piece_ends = expert_ends.select(1, share.count - 1).contiguous();
  const Tensor piece_begins = begins_of(piece_ends);
  TokenSlots slots;
  slots.most = (piece_ends - piece_begins).max();
  slots.ends = (expert_ends - piece_begins.unsqueeze(1)).clamp_max(share.capacity);

  const Tensor positions = torch::arange(share.capacity, piece_ends.options());
  const Tensor row_of_slot = (piece_begins.unsqueeze(1) + positions).clamp_max(rows - 1).flatten();
  slots.pairs = routing.pairs.index_select(0, row_of_slot);

  const Tensor row = torch::arange(rows, piece_ends.options());
  const Tensor rank = at::searchsorted(piece_ends, row, /*out_int32=*/true, /*right=*/true);
  const Tensor position = row - piece_begins.index_select(0, rank);
  const Tensor slot_of_row = rank * share.capacity + position.clamp_max(share.capacity - 1);
  slots.of_pairs = slot_of_row.index_select(0, routing.rows).to(torch::kInt64);
  return slots;
}

Routing arrived_routing(const Tensor& ends, const Tensor& rows) {
  const at::NoGradGuard no_gradient;
  const std::int64_t ranks = ends.size(0), slots = rows.size(0);
  const Tensor position =
      torch::arange(slots / ranks, ends.options()).expand({ranks, slots / ranks}).contiguous();
  const Tensor expert = at::searchsorted(ends, position, /*out_int32=*/true, /*right=*/true);
  Routing routing;
  routing.weights = torch::ones({slots, 1}, rows.options());
  routing.pairs = std::get<1>(at::sort(expert.flatten(), /*stable=*/true, 0, false));
  routing.rows = inverse_permutation(routing.pairs);
  routing.ends = (ends - begins_of(ends)).sum(0).cumsum(0).to(torch::kInt32);
  return routing;
}

}  // namespace athanor
