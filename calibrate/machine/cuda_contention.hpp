// SPDX-License-Identifier: Apache-2.0
// Lanes of GPUs beside each other.
#pragma once

#include "calibrate/activities/host_updates.hpp"
#include "calibrate/device/cuda_calibrator.hpp"
#include "sim/model/platform.hpp"

#include <functional>
#include <string>
#include <vector>

namespace athanor {

struct ContentionMeasurementOptions {
  Seconds warm_up = 0.1, window = 0.2;  ///< of each load, and of each lane alone
  /// Of kernels after a pause: until then a power limit lets more through. As long again for what
  /// they take alone, which swings around its mean with a period of about a second.
  Seconds settle = 1;
  Seconds fresh = 8;  ///< how long what another lane takes alone is believed
  std::int64_t matrix = 8192;
  // Of the size of chunks: what starting one takes must not count as contention.
  Bytes copy = 64 * kMiB, collective = 256 * kMiB;
  std::int64_t adam = 1 << 25;  ///< elements
};

/// Where lanes of files read and write: files of so many bytes, a piece at a time.
struct FileTarget {
  std::string folder;
  Bytes file = 0, piece = 0;
};

/// CPU Adam's threads of one of `ranks` ranks while lanes are measured at once.
[[nodiscard]] int sharing_adam_threads(int host_cores, int ranks);

enum class WhichSamples {
  All,
  HostMemory,  ///< those in which several activities are for the host's memory, and none for a disk
};

/// Lanes at once: every pair of one rank's, and what steps do on two ranks and on `num_devices`,
/// where CPU Adam has all cores between them. Each rank updates its part of `updates`, which has
/// `extent.adam` elements for each and more: how fast memory is depends on where it lies.
[[nodiscard]] std::vector<ContentionSample> measure_contention(
    CudaCalibrator& cuda, int num_devices, int host_cores, const HostUpdates& updates,
    const FileTarget& files, const ContentionMeasurementOptions& extent, WhichSamples which,
    const std::function<void(const std::string&)>& say);

}  // namespace athanor
