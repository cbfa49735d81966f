// SPDX-License-Identifier: Apache-2.0
#include "executor/train/meet_watch.hpp"

#include "executor/backend/gather.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace athanor {
namespace {

std::vector<std::int64_t> gather_links(Collectives& ranks, const JobWatch& watch) {
  return gather<std::int64_t>(ranks, watch.is_linked() ? 1 : 0);
}

}  // namespace

bool meet_watch(JobWatch& watch, Collectives& ranks) {
  if (ranks.world_size() == 1) return true;
  std::vector<std::int64_t> linked = gather_links(ranks, watch);
  if (!std::ranges::all_of(linked, [](std::int64_t is) { return is != 0; })) {
    const bool is_first = ranks.rank() == 0;
    const std::vector<MachineAddresses> machines = gather(ranks, own_machine_addresses());
    const MeetingPlace place =
        gather(ranks, is_first ? watch.open_meeting(machines) : MeetingPlace{}).front();
    if (!is_first) watch.go_to(place);
    linked = gather_links(ranks, watch);
  }
  if (ranks.rank() != 0) {
    if (watch.is_linked()) watch.expect(0);
    return watch.is_linked();
  }
  for (int rank = 1; rank < ranks.world_size(); ++rank) {
    if (linked[static_cast<std::size_t>(rank)] != 0) watch.expect(rank);
  }
  return true;
}

}  // namespace athanor
