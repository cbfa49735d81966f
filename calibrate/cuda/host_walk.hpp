// SPDX-License-Identifier: Apache-2.0
// Page-locked host memory as copies of a training step see it.
#pragma once

#include "calibrate/bench/rotating_buffer.hpp"
#include "executor/cuda/handles.hpp"
#include "sim/base/quantities.hpp"

#include <cstddef>
#include <memory>

namespace athanor {

using PinnedMemory = std::shared_ptr<const cuda::PinnedBlock>;

/// `bytes` of random bf16 values, drawn on `device`.
[[nodiscard]] PinnedMemory random_pinned_memory(int device, Bytes bytes);

/// The pieces of such memory that copies take, one after the other: a buffer that is copied again
/// and again stays in the processor's caches, and hardly shares the memory with CPU Adam.
class RotatingHostBuffer {
 public:
  /// The first piece is at `start`.
  RotatingHostBuffer(PinnedMemory memory, Bytes start);
  /// The next `bytes`. Throws Error where there are fewer in all.
  [[nodiscard]] std::byte* next(Bytes bytes);

 private:
  PinnedMemory memory_;
  RotatingBuffer windows_;
};

}  // namespace athanor
