// SPDX-License-Identifier: Apache-2.0
// Decides which rank keeps a copy of which other's state.
#pragma once

namespace athanor {

/// Ranks of other machines with which a rank exchanges copies.
struct PeerRanks {
  int peer = -1;  ///< keeps a copy of this rank's state
  int ward = -1;  ///< this rank keeps a copy of that one's
};

/// Returns the peers of `rank`, which has the same place among the ranks of its machine as they
/// have among theirs. Machines are paired, and with an odd number of them the last three are a ring
/// (CopyPlacement). Ranks fill one machine of `machine_ranks` after the other. Throws InputError
/// where there are no two machines of as many ranks.
[[nodiscard]] PeerRanks peer_ranks(int rank, int world_size, int machine_ranks);

}  // namespace athanor
