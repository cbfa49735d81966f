// SPDX-License-Identifier: Apache-2.0
// Which cache slot holds which unit over one step, on the known order of use.
#pragma once

#include "sim/model/plan.hpp"

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace athanor {

/// The slots of all unit classes. Accesses are numbered by their position in the step.
class SlotCache {
 public:
  struct Slot {
    std::int32_t unit = -1;         ///< -1 = empty
    std::int32_t last_access = -1;  ///< -1 = not used yet in this step
    std::int32_t filled = -1;       ///< when it got its unit, counted in fills of all slots
  };

  /// `pool_of[unit]`, `slots[pool]`, and per unit the ascending positions at which it is used.
  SlotCache(std::vector<std::int32_t> pool_of, const std::vector<int>& slots,
            std::vector<std::vector<std::int32_t>> uses, Eviction eviction);

  /// The slot that holds `unit`, or -1.
  [[nodiscard]] std::int32_t slot_of(std::int32_t unit) const;

  /// Makes room for `unit`, which is needed at `access`, and puts it there: an empty slot, else the
  /// occupant that is used again latest (Belady), among equals the one idle for longest, or the one
  /// that came first (FIFO). `pinned` occupants stay. Returns the slot's index and what it was, or
  /// nothing when all are pinned.
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
