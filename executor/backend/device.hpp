// SPDX-License-Identifier: Apache-2.0
// What holds a rank's memory and acts on it for the lanes of a program. A seam: the host backend
// acts at once on the calling thread; CUDA puts the act on the lane's stream and returns.
#pragma once

#include "executor/backend/device_arena.hpp"
#include "executor/cpu/adam.hpp"
#include "sim/base/quantities.hpp"
#include "sim/model/platform.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <span>

namespace athanor {

/// Owner of a block of memory of any kind; null for 0 bytes.
using MemoryBlock = std::unique_ptr<std::byte, std::function<void(std::byte*)>>;

/// AdamW on a shard, all of it beside the processor of the lane.
struct AdamWork {
  AdamStateView from, to;  ///< the same where the old state is not kept; on a GPU always
  const void* gradient = nullptr;
  DataType gradient_dtype = DataType::Float32;
  BFloat16Bits* rounded = nullptr;        ///< gets the new parameters in bf16; may be null
  std::span<const AdamSegment> segments;  ///< in order; what lies between them stays as it is
  AdamCoefficients coefficients;          ///< without the gradient's scale; decay where it acts
  const float* gradient_scale = nullptr;  ///< read when the update runs
  bool only_if_scaled = false;            ///< nothing is done where the scale is 1; on the host
  int threads = 1;                        ///< of the host; a GPU takes what it needs
};

/// What clipping leaves for Adam and the metrics.
struct ClippingResult {
  float norm = 0;
  float scale = 1;  ///< factor of the gradient
};

class Device {
 public:
  virtual ~Device() = default;

  /// Index of the GPU; -1 for the host backend.
  [[nodiscard]] virtual int index() const noexcept = 0;
  /// Where tensors come from; null where LibTorch's own device allocator serves them.
  [[nodiscard]] virtual DeviceArena* arena() noexcept = 0;

  /// Device memory, zeroed. Throws OutOfDeviceMemory beyond the limit. Counted by peak().
  [[nodiscard]] virtual MemoryBlock allocate(Bytes bytes) = 0;
  /// A little device memory that nobody counts, zeroed.
  [[nodiscard]] virtual MemoryBlock take_uncounted(Bytes bytes) = 0;
  /// Host memory that copies read and write at full speed and that both sides address alike,
  /// zeroed.
  [[nodiscard]] virtual MemoryBlock allocate_pinned(Bytes bytes) = 0;
  /// Highest number of bytes that blocks and tensors held at once.
  [[nodiscard]] virtual Bytes peak() const = 0;
  virtual void reset_peak() = 0;
  /// Copies between any two places and returns when it is done; for use outside steps.
  virtual void copy_now(void* to, const void* from, Bytes bytes) = 0;

  // Acts of a lane, in the lane's order.
  virtual void copy(Lane lane, void* to, const void* from, Bytes bytes) = 0;
  virtual void clear(Lane lane, void* memory, Bytes bytes) = 0;
  /// sum += addend, or sum = 0 + addend; bf16 widens first.
  virtual void accumulate(Lane lane, float* sum, const void* addend, DataType dtype,
                          std::int64_t elements, bool add) = 0;
  virtual void adam(Lane lane, const AdamWork& work) = 0;
  /// `threads`: of the host.
  virtual void square_sum(Lane lane, const void* values, DataType dtype, std::int64_t elements,
                          int threads, ExactSum* result) = 0;
  /// *result = values[0] + values[1] + .., in this order.
  virtual void sum(Lane lane, std::span<const ExactSum> values, ExactSum* result) = 0;
  /// Norm and factor as torch.nn.utils.clip_grad_norm_ computes them, from sums of squares.
  virtual void clip(Lane lane, std::span<const ExactSum> square_sums, float limit,
                    ClippingResult* result) = 0;
};

/// torch.nn.utils.clip_grad_norm_ adds this to the norm.
inline constexpr float kNormEpsilon = 1e-6F;

/// The host backend: device memory is a bounded arena, and every act is done when the call returns.
class HostDevice final : public Device {
 public:
  explicit HostDevice(Bytes memory_limit = 0);  ///< 0 = none

  [[nodiscard]] int index() const noexcept override { return -1; }
  [[nodiscard]] DeviceArena* arena() noexcept override { return &arena_; }
  [[nodiscard]] MemoryBlock allocate(Bytes bytes) override;
  [[nodiscard]] MemoryBlock take_uncounted(Bytes bytes) override;
  [[nodiscard]] MemoryBlock allocate_pinned(Bytes bytes) override;
  [[nodiscard]] Bytes peak() const override { return arena_.peak(); }
  void reset_peak() override { arena_.reset_peak(); }
  void copy_now(void* to, const void* from, Bytes bytes) override;
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

/// Pageable host memory, zeroed by all processors, in huge pages where the system has them, so that
/// a machine that lacks the memory says so now. Throws Error.
[[nodiscard]] MemoryBlock take_host_memory(Bytes bytes);

}  // namespace athanor
