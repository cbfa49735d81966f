// SPDX-License-Identifier: Apache-2.0
// Lanes of GPUs beside each other.
#pragma once

#include "calibrate/cuda_calibrator.hpp"
#include "calibrate/shared_fit.hpp"
#include "sim/model/platform.hpp"

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace athanor {

struct SharingExtent {
  Seconds warm_up = 0.15, window = 0.3;  ///< of each load
  std::int64_t matrix = 8192;
  Bytes copy = 64 * kMiB, collective = 64 * kMiB;
  std::int64_t adam = 1 << 23;  ///< elements
};

/// What was measured of lanes at once, on `num_devices` ranks with `adam_threads` each.
struct Sharing {
  std::map<Lane, Seconds> alone;  ///< one rank's activity
  std::vector<Disturbance> disturbances;
  std::vector<Load> loads;
};

[[nodiscard]] Sharing measure_sharing(CudaCalibrator& cuda, int num_devices, int adam_threads,
                                      const SharingExtent& extent,
                                      const std::function<void(const std::string&)>& say);

/// "h2d on 4 ranks x 1.27": one phrase for each load, for the notes.
[[nodiscard]] std::string describe(const std::vector<Load>& loads,
                                   const std::vector<SharedResource>& shared);

}  // namespace athanor
