// SPDX-License-Identifier: Apache-2.0
// A device holds a rank's memory and acts on it for the lanes of a program. An interface: the host
// backend acts at once on the calling thread; CUDA puts the act on the lane's stream and returns.
#pragma once

#include "executor/backend/host_memory.hpp"
#include "executor/cpu/adam.hpp"
#include "executor/cpu/reductions.hpp"
#include "executor/recording/work_recorder.hpp"
#include "sim/base/quantities.hpp"
#include "sim/model/platform.hpp"

#include <cstdint>
#include <span>

namespace athanor {

class DeviceArena;

/// One AdamW update of a shard. All its memory is that of the lane's processor.
struct AdamWork {
  AdamStateView from, to;  ///< equal where the old state is not kept, as always on a GPU
  const void* gradient = nullptr;
  DataType gradient_dtype = DataType::Float32;
  BFloat16Bits* old_parameters = nullptr;  ///< receives those of `from`; may be null, as on a GPU
  std::span<const AdamSegment> segments;   ///< in order; elements between them stay as they are
  AdamCoefficients coefficients;  ///< gradient_scale here is not used; decay acts by segment
  const float* gradient_scale = nullptr;  ///< read when the update runs
  bool only_if_scaled = false;            ///< does nothing where the scale is 1; on the host only
  int threads = 1;                        ///< host threads; a GPU takes what it needs
};

/// The gradient norm, and the factor by which Adam scales the gradient.
struct ClippingResult {
  float norm = 0;
  float scale = 1;
};

/// A rank's GPU, or the host in its place.
class Device {
 public:
  virtual ~Device() = default;

  /// Index of the GPU; -1 for the host backend.
  [[nodiscard]] virtual int index() const noexcept = 0;
  /// Arena that tensors come from; null where LibTorch's own device allocator serves them.
  [[nodiscard]] virtual DeviceArena* arena() noexcept = 0;
  /// Recorder of the compute lane; null where nothing can be recorded.
  [[nodiscard]] virtual WorkRecorder* recorder() { return nullptr; }

  /// Allocates device memory, zeroed, which peak() counts. Throws OutOfDeviceMemory beyond the
  /// limit.
  [[nodiscard]] virtual MemoryBlock allocate(Bytes bytes) = 0;
  /// Allocates a little device memory, zeroed, that peak() does not count.
  [[nodiscard]] virtual MemoryBlock allocate_uncounted(Bytes bytes) = 0;
  /// Allocates pinned memory, zeroed. Copies reach it at full speed, and both sides address it
  /// alike.
  [[nodiscard]] virtual MemoryBlock allocate_pinned(Bytes bytes) = 0;
  /// Makes host memory pinned for as long as the block that it returns lives.
  [[nodiscard]] virtual MemoryBlock pin(MemoryBlock memory, Bytes bytes) = 0;
  /// Highest number of bytes that blocks and tensors held at once.
  [[nodiscard]] virtual Bytes peak() const = 0;
  virtual void reset_peak() = 0;
  /// Copies between any two kinds of memory and returns when it is done; for use outside steps.
  virtual void copy_now(void* to, const void* from, Bytes bytes) = 0;
  /// Clears any kind of memory and returns when it is done; for use outside steps.
  virtual void clear_now(void* memory, Bytes bytes) = 0;

  // Acts of a lane, in the lane's order.
  virtual void copy(Lane lane, void* to, const void* from, Bytes bytes) = 0;
  virtual void clear(Lane lane, void* memory, Bytes bytes) = 0;
  /// Computes sum += addend, or sum = 0 + addend without `add`. bf16 widens first.
  virtual void accumulate(Lane lane, float* sum, const void* addend, DataType dtype,
                          std::int64_t elements, bool add) = 0;
  virtual void adam(Lane lane, const AdamWork& work) = 0;
  /// Sums squares into *result, with `threads` threads where the host does it.
  virtual void square_sum(Lane lane, const void* values, DataType dtype, std::int64_t elements,
                          int threads, ExactSum* result) = 0;
  /// Computes *result = values[0] + values[1] + .., in this order.
  virtual void sum(Lane lane, std::span<const ExactSum> values, ExactSum* result) = 0;
  /// Computes norm and factor from sums of squares, as torch.nn.utils.clip_grad_norm_ does.
  virtual void clip(Lane lane, std::span<const ExactSum> square_sums, float limit,
                    ClippingResult* result) = 0;
};

/// The number that torch.nn.utils.clip_grad_norm_ adds to the norm.
inline constexpr float kNormEpsilon = 1e-6F;

}  // namespace athanor
