// SPDX-License-Identifier: Apache-2.0
// Places of the rows of tokens that travel to the ranks of their experts. All sizes follow from the
// plan's capacity, however tokens are routed, and no number leaves the device.
#pragma once

#include "executor/experts/routing.hpp"

#include <torch/types.h>

#include <cstdint>

namespace athanor {

/// The experts of one rank, and how much may travel.
struct ExpertShare {
  std::int64_t first = 0, count = 0;  ///< experts of this rank; every rank has as many
  std::int64_t ranks = 1;
  std::int64_t capacity = 0;  ///< rows that one rank can send another (UnitPlan::capacity)

  [[nodiscard]] std::int64_t slots() const noexcept { return ranks * capacity; }
};

/// Slots of this rank's pairs (token, choice) in a buffer with one piece of `capacity` slots for
/// each rank. In a piece pairs are sorted by expert, as in the routing, from its start on.
struct TokenSlots {
  torch::Tensor pairs;     ///< int64 [slots]: the pair in each; in an empty slot, any
  torch::Tensor of_pairs;  ///< int64 [pairs]: the slot of each
  torch::Tensor ends;      ///< int32 [ranks, count]: where each expert's pairs end in its piece
  torch::Tensor most;      ///< int64 scalar: pairs for one rank, at most. If they are more than
                           ///< the capacity, some have the slots of others
};
[[nodiscard]] TokenSlots token_slots(const Routing& routing, const ExpertShare& share);

/// Returns the routing of rows that arrived from all ranks: each goes to one expert, with weight 1.
/// `ends` are those that the ranks sent, [ranks, count]; `rows` [slots, ..] says the type. Rows of
/// empty slots are behind all others, and no expert's.
[[nodiscard]] Routing arrived_routing(const torch::Tensor& ends, const torch::Tensor& rows);

}  // namespace athanor
