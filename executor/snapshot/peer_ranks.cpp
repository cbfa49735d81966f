// SPDX-License-Identifier: Apache-2.0
#include "executor/snapshot/peer_ranks.hpp"

#include "sim/base/errors.hpp"
#include "sim/failures/placement.hpp"

#include <fmt/format.h>

namespace athanor {

PeerRanks peer_ranks(int rank, int world_size, int machine_ranks) {
  if (machine_ranks < 1 || world_size % machine_ranks != 0 || world_size == machine_ranks) {
    const std::string found =
        machine_ranks < 1
            ? "their launcher does not say which of the ranks are on one machine, or they do not "
              "fill one machine after the other"
            : fmt::format("{} ranks with {} of them on this machine", world_size, machine_ranks);
    throw InputError(
        "plan:snapshot_copies",
        "a copy on another machine needs machines with equally many ranks: " + found,
        "Start the ranks on two or more machines (torchrun --nnodes, mpirun --host A:2,"
        "B:2 --map-by slot), or set snapshot_copies to 1.");
  }
  const CopyPlacement placement{
      .num_machines = world_size / machine_ranks, .num_copies = 2, .rule = PlacementRule::Mixed};
  const auto other_holder = [&](int machine) {
    for (const int holder : placement.holders(machine)) {
      if (holder != machine) return holder;
    }
    throw Error(fmt::format("machine {} has no peer", machine));
  };
  const int own = rank / machine_ranks, place = rank % machine_ranks;
  PeerRanks ranks{.peer = other_holder(own) * machine_ranks + place};
  for (int machine = 0; machine < placement.num_machines; ++machine) {
    if (other_holder(machine) == own) ranks.ward = machine * machine_ranks + place;
  }
  return ranks;
}

}  // namespace athanor
