// SPDX-License-Identifier: Apache-2.0
// Assignment of cache slots to units over one step, from the known order of use.
#pragma once

#include "sim/model/plan.hpp"

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace athanor {

/// The slots of all unit classes. An access is a visit of a group of micro-batches to a unit
/// (Access::visit); accesses are numbered in their order in the step.
class SlotCache {
 public:
  struct Slot {
    std::int32_t unit = -1;         ///< -1 = empty
    std::int32_t last_access = -1;  ///< -1 = not used yet in this step
    std::int32_t filled = -1;       ///< number of fills of all slots before its own; -1 = empty
  };

  /// Takes `pool_of[unit]`, `slots[pool]`, and per unit the ascending positions of its uses.
  SlotCache(std::vector<std::int32_t> pool_of, const std::vector<int>& slots,
            std::vector<std::vector<std::int32_t>> uses, Eviction eviction);

  /// Returns the slot that holds `unit`, or -1.
  [[nodiscard]] std::int32_t slot_of(std::int32_t unit) const;

  /// Puts `unit`, which is needed at `access`, into a slot. An empty slot comes first. Belady's
  /// rule then evicts the occupant that is used again latest, and among equals the one idle for
  /// longest; FIFO evicts the one that came first. `pinned` occupants stay. Returns the slot's
  /// index and its former content, or nothing when all are pinned.
  struct Placement {
    std::int32_t slot = 0;
    Slot previous;
  };
  [[nodiscard]] std::optional<Placement> place(std::int32_t unit, std::int32_t access,
                                               const std::vector<std::int32_t>& pinned);

  /// Records that `unit` was used at `access`.
  void touch(std::int32_t unit, std::int32_t access);

  [[nodiscard]] const std::vector<Slot>& pool(std::int32_t pool) const {
    return pools_[static_cast<std::size_t>(pool)];
  }

 private:
  [[nodiscard]] std::int32_t next_use(std::int32_t unit, std::int32_t access) const;
  [[nodiscard]] std::pair<std::int32_t, std::int32_t> eviction_key(const Slot& slot,
                                                                   std::int32_t access) const;

  std::vector<std::int32_t> pool_of_;
  std::vector<std::vector<std::int32_t>> uses_;
  std::vector<std::vector<Slot>> pools_;
  std::vector<std::int32_t> slot_of_;
  Eviction eviction_;
  std::int32_t fills_ = 0;
};

}  // namespace athanor
