// SPDX-License-Identifier: Apache-2.0
// Contention between the lanes of GPUs and their host.
#pragma once

#include "calibrate/activities/host_updates.hpp"
#include "calibrate/device/cuda_calibrator.hpp"
#include "calibrate/machine/parts.hpp"
#include "sim/model/platform.hpp"

#include <functional>
#include <string>
#include <vector>

namespace athanor {

struct ContentionMeasurementOptions {
  Seconds warm_up = 0.1, duration = 0.2;  ///< for each sample and each lane alone
  /// Warm-up of kernels after a pause, until the power limit has settled: at first it lets more
  /// through. Also the time over which kernels alone are averaged, because their speed then swings
  /// around its mean with a period of about a second.
  Seconds settle = 1;
  Seconds fresh = 8;  ///< how long the baseline of a lane other than compute stays valid
  std::int64_t matrix = 8192;
  // Sizes as of chunks: the time to start an operation must not count as contention.
  Bytes copy = 64 * kMiB, collective = 256 * kMiB;
  std::int64_t adam = 1 << 25;  ///< elements
};

/// Files that the lanes of files read and write: `file` bytes each, a `piece` at a time.
struct FileTarget {
  std::string folder;
  Bytes file = 0, piece = 0;
};

/// Returns the threads of CPU Adam on each of `ranks` ranks while contention is measured.
[[nodiscard]] int adam_threads_per_rank(int host_cores, int ranks);

enum class WhichSamples {
  All,
  HostMemory,  ///< those in which several activities use the host's memory, and none a disk
};

/// Machine on which contention is measured, and how.
struct ContentionSetup {
  CudaCalibrator& cuda;
  int num_devices = 1;
  int host_cores = 1;
  /// Memory of the updates. Each rank updates its own part. Has at least `options.adam` elements
  /// for each rank, and more is better: memory is faster in some places than in others.
  const HostUpdates& updates;
  FileTarget files;
  ContentionMeasurementOptions options;
  std::function<void(const std::string&)> remark;  ///< called with a line about each sample
  CalibrationPart::Advance advance;                ///< called after each sample
};

/// Number of samples that measure_contention takes.
[[nodiscard]] int num_contention_samples(int num_devices, WhichSamples which);

/// Measures lanes that run at once: every pair on one rank, and the sets of lanes that training
/// steps run at once on one rank, on two and on all. CPU Adam has all cores between the ranks.
[[nodiscard]] std::vector<ContentionSample> measure_contention(const ContentionSetup& setup,
                                                               WhichSamples which);

}  // namespace athanor
