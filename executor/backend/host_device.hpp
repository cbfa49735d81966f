// SPDX-License-Identifier: Apache-2.0
// The device of the host backend.
#pragma once

#include "executor/backend/device.hpp"
#include "executor/backend/device_arena.hpp"

#include <span>

namespace athanor {

/// A device whose memory is a bounded arena of host memory. Every act is done when the call
/// returns.
class HostDevice final : public Device {
 public:
  explicit HostDevice(Bytes memory_limit = 0);  ///< 0 = no limit

  [[nodiscard]] int index() const noexcept override { return -1; }
  [[nodiscard]] DeviceArena* arena() noexcept override { return &arena_; }
  [[nodiscard]] MemoryBlock allocate(Bytes bytes) override;
  [[nodiscard]] MemoryBlock allocate_uncounted(Bytes bytes) override;
  [[nodiscard]] MemoryBlock allocate_pinned(Bytes bytes) override;
  [[nodiscard]] MemoryBlock pin(MemoryBlock memory, Bytes bytes) override;
  [[nodiscard]] Bytes peak() const override { return arena_.peak(); }
  void reset_peak() override { arena_.reset_peak(); }
  void copy_now(void* to, const void* from, Bytes bytes) override;
  void clear_now(void* memory, Bytes bytes) override;
  void copy(Lane lane, void* to, const void* from, Bytes bytes) override;
  void clear(Lane lane, void* memory, Bytes bytes) override;
  void accumulate(Lane lane, float* sum, const void* addend, DataType dtype, std::int64_t elements,
                  bool add) override;
  void adam(Lane lane, const AdamWork& work) override;
  void square_sum(Lane lane, const void* values, DataType dtype, std::int64_t elements, int threads,
                  ExactSum* result) override;
  void sum(Lane lane, std::span<const ExactSum> values, ExactSum* result) override;
  void clip(Lane lane, std::span<const ExactSum> square_sums, float limit,
            ClippingResult* result) override;

 private:
  DeviceArena arena_;
};

/// Updates elements [begin, end) of the shard, on this thread and work.threads - 1 others. However
/// a shard is cut, the bits are the same.
void update_elements(const AdamWork& work, std::int64_t begin, std::int64_t end);

}  // namespace athanor
