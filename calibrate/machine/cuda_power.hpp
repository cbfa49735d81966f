// SPDX-License-Identifier: Apache-2.0
// Measures the power draw of a GPU, and how its power limit slows matrix products.
#pragma once

#include "calibrate/device/cuda_calibrator.hpp"
#include "calibrate/power/power_fit.hpp"
#include "sim/model/platform.hpp"

#include <cstdint>
#include <map>

namespace athanor {

/// Duration of each measurement.
struct PowerMeasurementOptions {
  Seconds bursts =
      1.5;  ///< each of five kinds of bursts with pauses; the longest kind takes longer
  Seconds sustained = 3;  ///< one burst without pauses; the limit has settled by its second half
  Seconds lane = 0.4;     ///< one lane's activity, after a warm-up of the same length
};

/// Measures products of [size, size] on device 0, for fit_power().
[[nodiscard]] PowerMeasurements measure_bursts(CudaCalibrator& cuda, std::int64_t size,
                                               const PowerMeasurementOptions& options);

/// Fits the power model to products of [size, size]; lane_watts is left empty. Throws Error as
/// fit_power() does.
[[nodiscard]] PowerModel power_of_products(const PowerMeasurements& measured, std::int64_t size);

/// Measures the watts that each lane's activity adds to `idle_watts` on device 0: AdamW for the
/// compute lane, copies of `copy` bytes, an all-gather between `num_devices`. CPU Adam draws no
/// power there.
[[nodiscard]] std::map<Lane, double> measure_lane_watts(CudaCalibrator& cuda, int num_devices,
                                                        Bytes copy,
                                                        const PowerMeasurementOptions& options,
                                                        double idle_watts);

}  // namespace athanor
