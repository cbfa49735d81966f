// SPDX-License-Identifier: Apache-2.0
// Copies of a rank's versions in the memory of its peer, on another machine.
#pragma once

#include "executor/backend/host_collectives.hpp"
#include "executor/memory/memory_pools.hpp"
#include "executor/snapshot/peer_ranks.hpp"
#include "executor/snapshot/snapshot_log.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace athanor {

/// Checksum that tells copies of state apart; fast, and not safe against intent.
[[nodiscard]] std::uint64_t state_checksum(std::uint64_t seed,
                                           std::span<const std::byte> bytes) noexcept;

/// Every rank makes the same calls in the same order.
class PeerCopies {
 public:
  /// The copies lie in the memory of `pools` behind `log`. All of them outlive this object.
  PeerCopies(HostCollectives& ranks, PeerRanks peers, const SnapshotLog& log,
             const MemoryPools& pools, const Program& program);

  /// Sends this rank's version of the chunk of `op`, a PeerCopy, after `steps` steps to its peer,
  /// with a checksum, and takes the ward's: to its place, or into the receive buffer.
  void copy(const Operation& op, std::int64_t steps) const;
  /// Copies what `op`, a PeerStore, names from the receive buffer to its place.
  void store(const Operation& op, std::int64_t steps, Device& device) const;
  /// Notes that the copy of the ward's version of `steps` is whole. Throws Error where the ward
  /// has sent another one.
  void note_copy(std::int64_t steps) const;

  /// Brings the version of `steps` into the memory of the ranks that have `lost` theirs, [rank],
  /// from their peers' copies, and the peers' marks. Throws Error where a checksum differs. Their
  /// logs say nothing of it yet. Returns, to these ranks, the steps of the state that the peer had
  /// loaded.
  std::int64_t restore(std::int64_t steps, const std::vector<bool>& lost) const;

 private:
  using Shifted = HostCollectives::Shifted;
  [[nodiscard]] std::size_t checksum_index(std::int32_t unit, std::int32_t chunk) const;
  void restore_chunk(std::int32_t unit, std::int32_t chunk, std::int64_t steps, int to,
                     int from) const;

  HostCollectives& ranks_;
  PeerRanks peers_;
  const SnapshotLog& log_;
  const MemoryPools& pools_;
  std::vector<std::size_t> first_chunk_;  ///< by unit, among all chunks
};

/// Makes them for `ranks`, `machine_ranks` of them on each machine (peer_ranks). Throws InputError
/// where those are ranks on GPUs, or have no peers.
[[nodiscard]] std::unique_ptr<PeerCopies> make_peer_copies(Collectives& ranks, int machine_ranks,
                                                           const SnapshotLog& log,
                                                           const MemoryPools& pools,
                                                           const Program& program);

}  // namespace athanor
