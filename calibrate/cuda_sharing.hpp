// SPDX-License-Identifier: Apache-2.0
// Lanes of GPUs beside each other.
#pragma once

#include "calibrate/cuda_calibrator.hpp"
#include "sim/model/platform.hpp"

#include <functional>
#include <string>
#include <vector>

namespace athanor {

struct SharingExtent {
  Seconds warm_up = 0.15, window = 0.3;  ///< of each load
  std::int64_t matrix = 8192;
  // Of the size of chunks: what starting one takes must not count as contention.
  Bytes copy = 64 * kMiB, collective = 256 * kMiB;
  std::int64_t adam = 1 << 25;  ///< elements
};

/// Lanes at once on `num_devices` ranks, CPU Adam with `adam_threads` each: every pair of one rank,
/// every lane beside another rank's, and what a step with offload does on all ranks.
[[nodiscard]] std::vector<LaneLoad> measure_loads(
    CudaCalibrator& cuda, int num_devices, int adam_threads, const SharingExtent& extent,
    const std::function<void(const std::string&)>& say);

}  // namespace athanor
