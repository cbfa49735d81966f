// SPDX-License-Identifier: Apache-2.0
// What a GPU draws, and how its power limit slows matrix products.
#pragma once

#include "calibrate/device/cuda_calibrator.hpp"
#include "calibrate/power/power_fit.hpp"
#include "sim/model/platform.hpp"

#include <cstdint>
#include <map>

namespace athanor {

/// Seconds of each measurement.
struct PowerMeasurementOptions {
  Seconds bursts = 1.5;   ///< with pauses, each of five kinds; of the longest, three bursts
  Seconds sustained = 3;  ///< without pauses; settled by the second half
  Seconds lane = 0.4;     ///< of one lane's activity, after as much again
};

/// What fit_power needs of device 0, by products of size x size.
[[nodiscard]] PowerMeasurements measure_bursts(CudaCalibrator& cuda, std::int64_t size,
                                               const PowerMeasurementOptions& extent);

/// Without lane powers, of products of size x size. Throws Error as fit_power.
[[nodiscard]] PowerModel power_of_products(const PowerMeasurements& measured, std::int64_t size);

/// What each lane's activity adds to `idle_watts` on device 0: AdamW for the compute lane, copies
/// of `copy` bytes, an all-gather between `num_devices`. CPU Adam draws nothing there.
[[nodiscard]] std::map<Lane, double> measure_lane_watts(CudaCalibrator& cuda, int num_devices,
                                                        Bytes copy,
                                                        const PowerMeasurementOptions& extent,
                                                        double idle_watts);

}  // namespace athanor
