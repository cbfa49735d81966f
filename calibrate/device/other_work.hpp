// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "calibrate/device/cuda_calibrator.hpp"
#include "sim/base/quantities.hpp"

#include <string>

namespace athanor {

/// Says which of the GPUs 0 .. `devices` - 1 other processes keep busy; empty if none is busy, or
/// if NVML does not tell. Asks several times, `pause` seconds apart. To be called before this
/// process works on a GPU.
[[nodiscard]] std::string other_work(CudaCalibrator& cuda, int devices, Seconds pause = 0.2);

}  // namespace athanor
