// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "calibrate/device/cuda_calibrator.hpp"
#include "sim/base/quantities.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace athanor {

/// Says which of the GPUs 0 .. `devices` - 1 other processes keep busy; empty if none is busy, or
/// if NVML does not tell. Asks several times, `pause` seconds apart. To be called before this
/// process works on a GPU.
[[nodiscard]] std::string other_work(CudaCalibrator& cuda, int devices, Seconds pause = 0.2);

/// Says how many cores of this machine work for `window` seconds in which this process does not;
/// empty if it is less than half of one, or if Linux does not tell. What a hypervisor gives to
/// other machines counts.
[[nodiscard]] std::string other_work_on_host(Seconds window = 0.5);

/// Returns the share of the time between two texts of /proc/stat in which processors worked;
/// nothing where they have no such time.
[[nodiscard]] std::optional<double> working_share(std::string_view before, std::string_view after);

}  // namespace athanor
