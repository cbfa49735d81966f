// SPDX-License-Identifier: Apache-2.0
// MemoryCheck: what a candidate needs of each memory, beside what there is.
#pragma once

#include "sim/model/memory.hpp"
#include "sim/search/space/search_space.hpp"

#include <functional>
#include <utility>

namespace athanor {

class MemoryCheck {
 public:
  /// Returns a rank's peak in every tier.
  using PeakBytes = std::function<TierBytes(const Candidate&)>;

  /// Knows nothing of memory.
  MemoryCheck() = default;
  MemoryCheck(PeakBytes peak_bytes, const MemoryLimits& limits, int ranks_per_node)
      : peak_bytes_(std::move(peak_bytes)), limits_(limits), ranks_per_node_(ranks_per_node) {
    gpu_.gpu = limits.gpu;
  }

  /// Whether it knows of memory. Else nothing may be asked.
  explicit operator bool() const noexcept { return peak_bytes_ != nullptr; }
  [[nodiscard]] TierBytes peak_bytes(const Candidate& candidate) const {
    return peak_bytes_(candidate);
  }
  [[nodiscard]] bool fits(const Candidate& candidate) const {
    return athanor::fits(peak_bytes_(candidate), ranks_per_node_, limits_);
  }
  /// Whether the GPU's memory suffices, whatever other tiers need.
  [[nodiscard]] bool fits_gpu(const Candidate& candidate) const {
    return athanor::fits(peak_bytes_(candidate), ranks_per_node_, gpu_);
  }

 private:
  PeakBytes peak_bytes_;
  MemoryLimits limits_, gpu_;
  int ranks_per_node_ = 1;
};

}  // namespace athanor
