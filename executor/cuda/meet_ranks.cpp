// SPDX-License-Identifier: Apache-2.0
#include "executor/cuda/meet_ranks.hpp"

#include "executor/rendezvous/rank_store.hpp"
#include "sim/base/errors.hpp"

#include <cstdint>
#include <cstring>
#include <vector>

namespace athanor::cuda {

ncclUniqueId meet_ranks(const RankInfo& rank) {
  constexpr const char* kIdKey = "athanor/nccl-id";
  // The store lives on in rank 0, since others may still be reading.
  static const auto store = join_rank_store(rank);
  ncclUniqueId id{};
  if (rank.rank == 0) {
    if (ncclGetUniqueId(&id) != ncclSuccess) throw Error("NCCL: no unique id");
    const auto* const bytes = reinterpret_cast<const std::uint8_t*>(id.internal);
    store->set(kIdKey, std::vector<std::uint8_t>(bytes, bytes + sizeof(id.internal)));
  } else {
    const std::vector<std::uint8_t> bytes = store->get(kIdKey);
    if (bytes.size() != sizeof(id.internal)) throw Error("another job uses MASTER_PORT");
    std::memcpy(id.internal, bytes.data(), sizeof(id.internal));
  }
  return id;
}

}  // namespace athanor::cuda
