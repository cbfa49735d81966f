// SPDX-License-Identifier: Apache-2.0
#include "sim/lowering/slot_cache.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace athanor {

SlotCache::SlotCache(std::vector<std::int32_t> pool_of, const std::vector<int>& slots,
                     std::vector<std::vector<std::int32_t>> uses, Eviction eviction)
    : pool_of_(std::move(pool_of)),
      uses_(std::move(uses)),
      slot_of_(pool_of_.size(), -1),
      eviction_(eviction) {
  for (const int count : slots) pools_.emplace_back(static_cast<std::size_t>(count));
}

std::int32_t SlotCache::slot_of(std::int32_t unit) const {
  return slot_of_[static_cast<std::size_t>(unit)];
}

std::int32_t SlotCache::next_use(std::int32_t unit, std::int32_t access) const {
  if (unit < 0) return std::numeric_limits<std::int32_t>::max();
  const auto& uses = uses_[static_cast<std::size_t>(unit)];
  const auto next = std::ranges::upper_bound(uses, access);
  return next == uses.end() ? std::numeric_limits<std::int32_t>::max() : *next;
}

/// Returns the key whose largest value is evicted. Belady: later next use, then longer idle. FIFO:
/// filled earlier.
std::pair<std::int32_t, std::int32_t> SlotCache::eviction_key(const Slot& slot,
                                                              std::int32_t access) const {
  if (eviction_ == Eviction::Belady) return {next_use(slot.unit, access), -slot.last_access};
  return {-slot.filled, -slot.last_access};
}

std::optional<SlotCache::Placement> SlotCache::place(std::int32_t unit, std::int32_t access,
                                                     const std::vector<std::int32_t>& pinned) {
  auto& slots = pools_[static_cast<std::size_t>(pool_of_[static_cast<std::size_t>(unit)])];
  std::int32_t best = -1;
  std::pair<std::int32_t, std::int32_t> best_key;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const Slot& slot = slots[i];
    if (slot.unit >= 0 && std::ranges::find(pinned, slot.unit) != pinned.end()) continue;
    const auto key = eviction_key(slot, access);
    if (best >= 0 && key <= best_key) continue;
    best = static_cast<std::int32_t>(i);
    best_key = key;
  }
  if (best < 0) return std::nullopt;
  Slot& slot = slots[static_cast<std::size_t>(best)];
  const Placement placement{best, slot};
  if (slot.unit >= 0) slot_of_[static_cast<std::size_t>(slot.unit)] = -1;
  slot_of_[static_cast<std::size_t>(unit)] = best;
  slot = {unit, slot.last_access, fills_++};
  return placement;
}

void SlotCache::touch(std::int32_t unit, std::int32_t access) {
  const auto index = static_cast<std::size_t>(unit);
  pools_[static_cast<std::size_t>(pool_of_[index])][static_cast<std::size_t>(slot_of_[index])]
      .last_access = access;
}

}  // namespace athanor
